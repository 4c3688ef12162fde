"""When a worker may use its leases, and when it may reclaim those of other workers."""

from __future__ import annotations

import math

_USABLE = 0.8
"""Share of a lease in which requests may be sent; the rest is for the last response."""


class LeaseSafety:
    """The times at which leases may be used, taken and reaped.

    All times are monotonic. `delay` is the pause between two requests to a host, in seconds.
    """

    def __init__(self, lease_seconds: float, delay: float) -> None:
        self._lease_seconds = lease_seconds
        self.delay = delay
        self._lease_at = -math.inf
        self._reap_at = 0.0

    @property
    def answer_seconds(self) -> float:
        """How long a response may take to a request sent at the last usable moment of a lease."""
        return (1 - _USABLE) * self._lease_seconds

    def until(self, asked: float) -> float:
        """Until when a lease that was requested or extended at `asked` may be used."""
        return asked + _USABLE * self._lease_seconds

    def leave_to_others(self, now: float) -> None:
        """Waits before leasing from an engine that was restarted until other workers know their losses."""
        self._lease_at = now + self.answer_seconds + self.delay
        # if the engine's clock is ahead, leases of other workers only seem to have expired
        self._reap_at = now + self._lease_seconds

    def may_lease(self, now: float) -> bool:
        return now >= self._lease_at

    def may_reap(self, sent: float, last: float) -> bool:
        """Whether the heartbeat sent at `sent`, after one at `last`, may take back expired leases.

        After a gap in which leases may have expired it waits for the length of a lease: other workers may have had the
        same outage and are about to extend theirs.
        """
        if self._lease_seconds / 2 < sent - last < math.inf:
            self._reap_at = sent + self._lease_seconds
        return sent >= self._reap_at
