"""A worker's sign of life, every two seconds: it keeps its leases, and hears how the crawl stands."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

from webcrawl.frontier import Crawl, Frontier
from webcrawl.worker.backpressure import Backpressure
from webcrawl.worker.lease_safety import LeaseSafety
from webcrawl.worker.leased_hosts import LeasedHosts
from webcrawl.worker.membership import Membership
from webcrawl.worker.permits import Permits

logger = logging.getLogger(__name__)

_BEAT_SECONDS = 2.0


class Heartbeat:
    """One worker's. `delay_changed` is told each host whose delay is another one now."""

    def __init__(
        self,
        frontier: Frontier,
        crawl: Crawl,
        hosts: LeasedHosts,
        members: Membership,
        permits: Permits,
        safety: LeaseSafety,
        backpressure: Backpressure,
        *,
        delay_changed: Callable[[str], None],
    ) -> None:
        self.paused = False
        """An operator has paused the crawl."""
        self.holds = False
        """The stores take no more, and the crawl has been told."""
        self._frontier = frontier
        self._crawl = crawl
        self._hosts = hosts
        self._members = members
        self._permits = permits
        self._safety = safety
        self._backpressure = backpressure
        self._delay_changed = delay_changed
        self._every = min(_BEAT_SECONDS, frontier.lease_seconds / 4)
        self._last = -math.inf

    @property
    def is_registered(self) -> bool:
        """Whether the server knows that this worker is there."""
        return self._last > -math.inf

    @property
    def is_due(self) -> bool:
        """Whether the last one was so long ago that the next should be sent."""
        return time.monotonic() - self._last > self._every

    async def beat(self, *, seeding: bool) -> None:
        """Extend all leases, take back those of dead workers, and ask who else is there and whether to pause."""
        sent = time.monotonic()
        self._set_paused((await self._crawl.beat(seeding=seeding)).paused)
        self._permits.valid_until = sent + self._crawl.worker_seconds
        await self._extend(sent)
        await self._reap(sent)
        if self.holds:
            await self._crawl.hold(self._backpressure.reason)
        await self._members.update()
        self._last = sent

    async def on_young_engine(self) -> None:
        """Before the first: an engine that was started a moment ago may have forgotten who has a host."""
        age = await self._frontier.engine.age()
        # an embedded one is young whenever a crawl begins, and its workers do not outlive its machine
        if (
            age < self._frontier.lease_seconds
            and not self._frontier.engine.embedded
            and await self._crawl.working()
        ):
            self._safety.leave_to_others(time.monotonic() - age)

    async def update_hold(self) -> None:
        """While the stores take no more nothing more is fetched; what has been fetched waits for them."""
        reason = self._backpressure.reason
        if bool(reason) == self.holds:
            return
        # first: should the engine be away, this is done again
        await self._crawl.hold(reason)
        self.holds = bool(reason)
        if reason:
            logger.warning("The stores take no more for now (%s): holding, nothing is lost.", reason)
        else:
            logger.warning("The stores take more again: going on.")

    async def _extend(self, sent: float) -> None:
        lost = await self._frontier.extend([host.lease for host in self._hosts])
        for lease in [host.lease for host in self._hosts]:
            if lease.host in lost:
                self._hosts.lose(lease.host)
            elif self._hosts.extend(lease, self._safety.until(sent)):
                self._delay_changed(lease.host)

    async def _reap(self, sent: float) -> None:
        """Take back what dead workers had; `sent` is the time of this beat."""
        if not self._safety.may_reap(sent, self._last):
            return
        # a worker that was stopped in mid-request may still be answered
        hosts, buried = await self._frontier.reap(
            delay=self._safety.delay, answer=self._safety.answer_seconds
        )
        if hosts:
            logger.warning(
                "Took back %d hosts of workers that died; %d URLs are dead letters.", hosts, buried
            )

    def _set_paused(self, paused: bool) -> None:
        if paused != self.paused:
            logger.info("The crawl is paused: waiting." if paused else "The crawl goes on.")
        self.paused = paused
