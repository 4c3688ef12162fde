"""What a worker tells the frontier of a leased host: what is settled, whether it wants more of it, or gives it back."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from webcrawl.config import FrontierConfig
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Report
from webcrawl.hosts.turns import Turns
from webcrawl.worker.leased_hosts import LeasedHost, LeasedHosts
from webcrawl.worker.membership import Membership

_LONG_BLOCK_SECONDS = 0.5
_AT_A_TIME = 4
_MOST_AHEAD = 1000


@dataclass(frozen=True, slots=True)
class Reports:
    """Writes the reports of one worker. `sent`, here and there: so many of the URLs it found are on the server."""

    hosts: LeasedHosts
    turns: Turns
    members: Membership
    config: FrontierConfig
    keys: Keys

    def of(self, host: LeasedHost, sent: int, *, closing: bool) -> Report:
        """What can be told of a host now; when nothing of it is in the air, this may give it back."""
        host.lease.gap = host.turn.gap
        report = host.report(sent)
        told = len(report.settled) == len(host.settled)
        if told and host.unsettled == len(host.urls) and (host.leaving or _is_blocked(host)):
            # the server remembers a back-off better than a process does, and the place can serve another host
            return self.last_of(host, sent)
        more = 0 if closing else self._more_of(host)
        if told and host.unsettled == 0 and not more:
            return self.last_of(host, sent)
        return replace(report, more=more)

    def last_of(self, host: LeasedHost, sent: int) -> Report:
        """The report that gives a host back, with what the server has to remember of it."""
        host.lease.failures = host.turn.failures
        pause = host.turn.wait(time.monotonic())
        return replace(host.report(sent), pause=pause, quiet=self.turns.config.forgive_after)

    def _more_of(self, host: LeasedHost) -> int:
        """How many URLs to ask for on top: as long as no other host waits for a place, a host is kept busy.

        A fast one has more ahead than FRONTIER_LEASE_URLS, or it would run dry from one report to the next.
        """
        fast = max(host.concurrency, len(host.settled)) // _AT_A_TIME
        ahead = min(self.config.lease_urls * (1 + fast), _MOST_AHEAD)
        low = len(host.urls) <= ahead // 2
        room = len(self.hosts) < self.config.lease_hosts
        mine = self.members.serves(self.keys.shard(host.lease.host))
        wanted = low and room and mine and not host.drained
        return ahead - len(host.urls) if wanted else 0


def _is_blocked(host: LeasedHost) -> bool:
    """Whether the host has to be left alone for longer than between any two requests."""
    return host.turn.wait(time.monotonic()) > host.turn.gap + _LONG_BLOCK_SECONDS
