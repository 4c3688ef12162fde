"""The loop of a worker. Each round sends heartbeats, adds discovered URLs, reports settled ones and leases hosts."""

from __future__ import annotations

import asyncio
import logging
import time

from webcrawl.engine.backoff import SHUTDOWN_SECONDS, Backoff
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import ConfigurationError
from webcrawl.frontier import Lease
from webcrawl.worker.backpressure import Backpressure
from webcrawl.worker.engine_restarts import EngineRestarts
from webcrawl.worker.heartbeat import Heartbeat
from webcrawl.worker.lease_safety import LeaseSafety
from webcrawl.worker.mined_changes import MinedChanges
from webcrawl.worker.permits import AHEAD_SECONDS
from webcrawl.worker.reporter import Reporter
from webcrawl.worker.rule_changes import RuleChanges
from webcrawl.worker.state import WorkerState

logger = logging.getLogger(__name__)

_GATHER_SECONDS = 0.01
_GATHER_LONGEST = 0.05
_GATHER_FACTOR = 4
_IDLE_SECONDS = 0.1
_LONGEST_RETRY = 5.0


class Loop:
    """Runs rounds until the worker closes or fails.

    `alone`: the seen set is in this process, so the crawl must have no other worker.
    """

    def __init__(
        self,
        state: WorkerState,
        restarts: EngineRestarts,
        backpressure: Backpressure,
        mined: MinedChanges | None,
        *,
        alone: bool,
    ) -> None:
        self._state = state
        self._hosts = state.hosts
        self._restarts = restarts
        self._alone = alone
        self._safety = LeaseSafety(state.config.lease_seconds, state.turns.config.delay)
        self._reporter = Reporter(state)
        self._rules = RuleChanges(state)
        self._mined = mined
        self.heartbeat = Heartbeat(state, self._safety, backpressure)
        self._lease_at = 0.0
        """Monotonic time of the next attempt to lease, after one that gave nothing."""
        self._outage: Backoff | None = None
        """The retries since the engine became unavailable."""

    @property
    def waits_for_engine(self) -> bool:
        """Whether the engine did not answer last."""
        return self._outage is not None

    @property
    def waits(self) -> bool:
        """Whether pages may wait for the stores or the engine, which accept nothing now."""
        return self.waits_for_engine or bool(self.heartbeat.backpressure.reason)

    async def run(self) -> None:
        """Runs until everything is reported, or until the frontier cannot go on."""
        while True:
            began = time.monotonic()
            try:
                if await self._restarts.detected():
                    await self._on_engine_restart()
                await self._round()
                self._log_lost_leases()
                if self._outage:
                    logger.warning("The engine is available again; the crawl continues.")
                self._outage = None
                if self._state.closing:
                    await self._close()
                    return
            except UNAVAILABLE as error:
                if not await self._wait_for_engine(error):
                    return
                continue
            except Exception as error:
                logger.exception("The frontier failed; the crawl stops.")
                self._state.failure = error
                self._state.finish("frontier_error")
                return
            await self._pause(time.monotonic() - began)

    async def _wait_for_engine(self, error: BaseException) -> bool:
        """Waits before the next attempt; returns False when it is time to give up.

        Fetches and pipelines go on meanwhile. Their results are reported if the engine returns before they end.
        """
        self._restarts.doubt()
        self._state.discovered.doubt(reload=self._outage is None)
        if self._outage is None:
            logger.warning("The engine is unavailable (%s). The crawl waits for it; nothing is lost.", error)
            # after a restart, other workers lease hosts only when their holders had this much time to notice it
            longest = min(_LONGEST_RETRY, self._safety.answer_seconds / 2)
            self._outage = Backoff(SHUTDOWN_SECONDS, self._state.turns.ending, longest=longest)
        if self._outage.is_over and self._state.closing:
            logger.error("The engine is still unavailable. Closing without a last report; the leases expire.")
            return False
        await self._outage.pause()
        return True

    async def _on_engine_restart(self) -> None:
        """Repeats what a restarted engine may have lost.

        The engine may not know our leases. So hosts that were lost are found out before others lease them, and every
        other host is released once its URLs are settled.
        """
        self._state.discovered.resend()
        if self._state.importance:
            self._state.importance.forget()
        for host in self._hosts:
            host.frozen = True
        self._safety.leave_to_others(time.monotonic())
        self._state.leave_addresses(self._safety.answer_seconds)
        await self._beat()
        self._restarts.handled()

    async def _pause(self, round_took: float) -> None:
        """Waits for something to report. A short pause in any case makes batches, larger ones under load."""
        await asyncio.sleep(min(max(_GATHER_SECONDS, _GATHER_FACTOR * round_took), _GATHER_LONGEST))
        try:
            async with asyncio.timeout(_IDLE_SECONDS):
                await self._state.changed.wait()
        except TimeoutError:
            return
        finally:
            self._state.changed.clear()

    async def _round(self) -> None:
        state, heartbeat = self._state, self.heartbeat
        # the heartbeat comes first: entries may name this worker, which must count as alive by then; and leases must
        # not expire while a full engine rejects what is added
        if not heartbeat.is_registered:
            await heartbeat.check_engine_age()
        await self._beat_if_due()
        asked = time.monotonic()
        self._open(await state.frontier.regain(), asked)
        while state.given_up:
            await self._reporter.give_up(next(iter(state.given_up)))
        if self._mined:
            await self._mined.update()
        await self._send_discovered()
        if not self._hosts:
            state.permits.give_back()
        await self._rules.update()
        await self._reporter.send()
        if state.closing:
            return
        if state.importance:
            await state.importance.pay_if_due(state.membership.served())
        if state.budgets:
            await state.budgets.send_if_due(state.membership.served())
        await heartbeat.update_hold()
        if heartbeat.paused or heartbeat.holds:
            self._release_all()
        else:
            await self._update_permits()
            await self._lease()
        if heartbeat.paused:
            return
        if not (self._hosts or state.discovered or state.seeding or state.finished):
            await self._check_finished()

    async def _send_discovered(self) -> None:
        """Sends discovered URLs, with heartbeats in between so that no lease expires meanwhile."""
        if await self._state.discovered.send(self._beat_if_due):
            self._lease_at = 0.0

    async def _close(self) -> None:
        while self._state.discovered:
            await self._send_discovered()
        await self.heartbeat.end()
        await self._reporter.send_last()

    async def _lease(self) -> None:
        state = self._state
        asked = time.monotonic()
        answered = state.turns.places.answered
        new = len(self._hosts) - answered
        state.window.update(
            answered=answered,
            new=new,
            due=self._hosts.next_at() <= asked,
            connections=state.turns.has_room,
        )
        hosts, new = state.window.room(answered=answered, new=new)
        if not (hosts or new) or asked < self._lease_at or not self._safety.may_lease(asked):
            return
        leases = await state.frontier.lease(hosts, state.window.urls, state.membership.served(), new=new)
        self._lease_at = 0.0 if leases else asked + _IDLE_SECONDS
        self._open(leases, asked)

    def _open(self, leases: list[Lease], asked: float) -> None:
        """Makes the URLs of new leases available; `asked` is the monotonic time of the lease call."""
        for lease in leases:
            self._hosts.open(lease, self._safety.until(asked))
            host = self._hosts[lease.host]
            if self._state.budgets:
                self._state.budgets.open(lease.host, answered=lease.answered)
            if host.settled:  # URLs that have sunk or were replaced
                self._state.report(lease.host)
            self._rules.check(lease)

    async def _beat_if_due(self) -> None:
        if self.heartbeat.is_due:
            await self._beat()

    async def _beat(self) -> None:
        state = self._state
        await self.heartbeat.beat()
        limit = state.config.max_bytes
        if limit and (await state.crawl.totals()).get("bytes", 0) >= limit:
            state.finish("max_bytes")
        if self._alone and len(state.membership.peers) > 1:
            raise ConfigurationError(
                'SEEN_SET = "bloom" works with a single worker, but this crawl has several. '
                'Set SEEN_SET = "exact" or stop the other workers.'
            )

    def _release_all(self) -> None:
        """Releases each host as soon as its fetches in flight are done: the crawl is paused or holds."""
        for host in self._hosts:
            if not host.leaving:
                host.leaving = True
                self._state.report(host.lease.host)

    async def _update_permits(self) -> None:
        permits = self._state.permits
        permits.give_back_unneeded(self._hosts.due(AHEAD_SECONDS))
        if not permits.low:
            return
        was_short = permits.short
        if await permits.reserve(self._hosts.due(AHEAD_SECONDS)):
            if was_short:
                self._state.wake()
        elif all(host.unsettled == len(host.urls) for host in self._hosts) and await permits.exhausted():
            self._state.finish("max_pages")

    async def _check_finished(self) -> None:
        others_seeding = (await self._state.crawl.workers.beat(seeding=False)).seeding
        nothing_left = not others_seeding and await self._state.frontier.finished()
        # a callback may have found URLs meanwhile that the engine does not have yet
        if nothing_left and not self._state.discovered:
            self._state.finish("finished")

    def _log_lost_leases(self) -> None:
        """Logs one line, because a worker that was suspended loses all its leases at once."""
        if lost := self._hosts.take_lost():
            self._state.counters["lost_leases"] += len(lost)
            logger.warning(
                "The lease of %s%s was lost: the host was blocked, or this worker sent no heartbeat for "
                "FRONTIER_LEASE_SECONDS.",
                lost[0],
                f" (and of {len(lost) - 1} more hosts)" if len(lost) > 1 else "",
            )
