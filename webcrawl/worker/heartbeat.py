"""A worker's heartbeat: extends its leases, reclaims those of dead workers, and reads the state of the crawl."""

from __future__ import annotations

import logging
import math
import time

from webcrawl.metrics.totals import DEAD
from webcrawl.worker.backpressure import Backpressure
from webcrawl.worker.cost_reports import CostReports
from webcrawl.worker.lease_safety import LeaseSafety
from webcrawl.worker.state import WorkerState
from webcrawl.worker.vitals import VitalsReports

logger = logging.getLogger(__name__)

_BEAT_SECONDS = 2.0


class Heartbeat:
    """The heartbeat of one worker."""

    def __init__(self, state: WorkerState, safety: LeaseSafety, backpressure: Backpressure) -> None:
        self.paused = False
        """An operator paused the crawl."""
        self.holds = False
        """The stores accept nothing more, and the engine knows it."""
        self._state = state
        self._safety = safety
        self.backpressure = backpressure
        self._costs = CostReports(state.costs, state.hosts, state.crawl)
        self._vitals = VitalsReports(state)
        self._stops: int | None = None
        """How often the crawl had been stopped when this worker began."""
        self._every = min(_BEAT_SECONDS, state.frontier.lease_seconds / 4)
        self._last = -math.inf

    @property
    def is_registered(self) -> bool:
        """Whether the engine has the first heartbeat."""
        return self._last > -math.inf

    @property
    def is_due(self) -> bool:
        """Whether the next heartbeat should be sent."""
        return time.monotonic() - self._last > self._every

    async def beat(self) -> None:
        """Extends all leases, reclaims those of dead workers, updates membership and pause, and sends costs."""
        state, sent = self._state, time.monotonic()
        beat = await state.crawl.workers.beat(seeding=state.seeding)
        self._set_paused(beat.paused)
        if self._stops is None:
            self._stops = beat.stops
        elif beat.stops > self._stops:
            state.finish("stopped")
        state.permits.valid_until = sent + state.crawl.worker_seconds
        await self._extend(sent)
        await self._reap(sent)
        if self.holds:
            await state.crawl.workers.hold(self.backpressure.reason)
        await state.membership.update()
        await self._costs.send()
        await self._vitals.send(state.crawl.worker_seconds)
        self._last = sent

    async def end(self) -> None:
        """Sends the last costs, and takes the last sample."""
        await self._costs.send()
        await self._vitals.sample()

    async def check_engine_age(self) -> None:
        """Leaves hosts to other workers for a while if the engine has just started: it may not know their leases.

        An embedded engine is young whenever a crawl starts, and its workers do not outlive its machine.
        """
        frontier = self._state.frontier
        age = await frontier.engine.age()
        young = age < frontier.lease_seconds and not frontier.engine.embedded
        if young and await self._state.crawl.workers.count_alive():
            # from now, not from the start: the other workers could not ask the engine while it loaded its data
            self._safety.leave_to_others(time.monotonic())
            self._state.leave_addresses(self._safety.answer_seconds)

    async def update_hold(self) -> None:
        """Holds while the stores accept nothing more: nothing is fetched, and fetched pages wait."""
        reason = self.backpressure.reason
        if bool(reason) == self.holds:
            return
        # first, so that it is repeated if the engine is unavailable
        await self._state.crawl.workers.hold(reason)
        self.holds = bool(reason)
        if reason:
            logger.warning("The stores accept nothing more (%s): holding, nothing is lost.", reason)
        else:
            logger.warning("The stores accept pages again; the crawl continues.")

    async def _extend(self, sent: float) -> None:
        hosts = self._state.hosts
        lost = await self._state.frontier.extend([host.lease for host in hosts])
        for lease in [host.lease for host in hosts]:
            if lease.host in lost:
                hosts.lose(lease.host)
            elif hosts.extend(lease, self._safety.until(sent)):
                self._state.delay_changed(lease.host)

    async def _reap(self, sent: float) -> None:
        """Reclaims the leases of dead workers; `sent` is the time of this heartbeat."""
        if not self._safety.may_reap(sent, self._last):
            return
        # a worker that was suspended during a request may still get its answer
        hosts, buried = await self._state.frontier.reap(
            delay=self._safety.delay, answer=self._safety.answer_seconds
        )
        if buried:
            self._state.counters[f"{DEAD}worker"] += buried
        if hosts:
            logger.warning("Reclaimed %d hosts of dead workers; %d URLs became dead letters.", hosts, buried)

    def _set_paused(self, paused: bool) -> None:
        if paused != self.paused:
            logger.info("The crawl is paused." if paused else "The crawl was resumed.")
        self.paused = paused
