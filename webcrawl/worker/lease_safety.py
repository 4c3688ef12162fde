"""How long a worker may trust its leases, and when it may touch those of others."""

from __future__ import annotations

import math

_TRUSTED = 0.8
"""Share of a lease in which requests may go out: what is sent at its end has to be answered before it ends."""


class LeaseSafety:
    """Times are monotonic. `delay` is the pause between two requests to a host, in seconds."""

    def __init__(self, lease_seconds: float, delay: float) -> None:
        self._lease_seconds = lease_seconds
        self.delay = delay
        self._lease_at = -math.inf
        self._reap_at = 0.0

    @property
    def answer_seconds(self) -> float:
        """How long a request may take that was sent at the end of a lease: as leases are trusted so much less."""
        return (1 - _TRUSTED) * self._lease_seconds

    def until(self, asked: float) -> float:
        """Until when nobody else can have a host whose lease was asked for, or extended, at this time."""
        return asked + _TRUSTED * self._lease_seconds

    def leave_to_others(self, started: float) -> None:
        """Those who had hosts when the engine was `started` must hear first which of them they have."""
        self._lease_at = started + self.answer_seconds + self.delay
        # where its clock is ahead, leases of others seem to have run out: they are about to extend them
        self._reap_at = started + self._lease_seconds

    def may_lease(self, now: float) -> bool:
        return now >= self._lease_at

    def may_reap(self, sent: float, last: float) -> bool:
        """Whether what dead workers had may be taken back, at the beat `sent` that follows the one at `last`.

        After a silence in which leases may have run out, only a lease's time later: whoever else the engine was away
        from is alive, and about to extend.
        """
        if self._lease_seconds / 2 < sent - last < math.inf:
            self._reap_at = sent + self._lease_seconds
        return sent >= self._reap_at
