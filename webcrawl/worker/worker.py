"""One worker's side of the frontier: leases ahead, hands out what is due, and reports in batches.

Nothing here waits for a page. `next` and `settle` are plain calls; a task of the worker's own talks to the server, adds
first and acknowledgements after, so that a URL leaves the frontier only when its outlinks are in it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from webcrawl.config import FrontierConfig
from webcrawl.engine.backoff import SHUTDOWN_SECONDS, Backoff
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import ConfigurationError
from webcrawl.frontier import Candidate, Crawl, Frontier, Lease, LeasedURL, Report, Settlement
from webcrawl.frontier.bloom import BloomSeen
from webcrawl.frontier.tails import Tails
from webcrawl.hosts.turns import Turns
from webcrawl.worker.backpressure import Backpressure
from webcrawl.worker.discovered import Discovered
from webcrawl.worker.engine_restarts import EngineRestarts
from webcrawl.worker.heartbeat import Heartbeat
from webcrawl.worker.lease_safety import LeaseSafety
from webcrawl.worker.leased_hosts import LeasedHosts, Settled
from webcrawl.worker.membership import Membership
from webcrawl.worker.permits import Permits
from webcrawl.worker.reports import Reports

logger = logging.getLogger(__name__)

_GATHER_SECONDS = 0.01
_GATHER_LONGEST = 0.05
_GATHER_FACTOR = 4
_IDLE_SECONDS = 0.1
_LONGEST_HOLD = 5.0


class Worker:
    """See the module. `wake` is called when there is something to hand out, or nothing ever more."""

    def __init__(
        self,
        frontier: Frontier,
        crawl: Crawl,
        turns: Turns,
        config: FrontierConfig,
        wake: Callable[[], None],
        *,
        bloom: BloomSeen | None = None,
        tails: Tails | None = None,
        backpressure: Backpressure,
    ) -> None:
        self.frontier = frontier
        self.crawl = crawl
        self.turns = turns
        self.finished: str | None = None
        """Why all is over: "finished", "max_pages", "max_bytes" or "frontier_error"; None while it is not."""
        self.failure: Exception | None = None
        self.seeding = True
        self.counted: Counter[str] = Counter()
        """Increments for the crawl's totals, sent with the next report."""
        self.answered_hosts: set[str] = set()
        """Hosts that answered, to be counted."""
        self._config = config
        self._restarts = EngineRestarts(frontier.engine)
        self.discovered = Discovered(frontier, self._restarts, config.recent, bloom, self._count)
        self._alone = bloom is not None
        self._safety = LeaseSafety(config.lease_seconds, turns.config.delay)
        self._tails = tails
        self._wake = wake
        self._hosts = LeasedHosts(turns, wake)
        self._permits = Permits(crawl, config.max_pages)
        self._dirty: set[str] = set()
        self._condemned: set[str] = set()
        self._lease_at = 0.0
        self._signal = asyncio.Event()
        self._closing = False
        self.membership = Membership(crawl, frontier.keys.shards)
        self._reports = Reports(self._hosts, turns, self.membership, config, frontier.keys)
        self._heart = Heartbeat(
            frontier,
            crawl,
            self._hosts,
            self.membership,
            self._permits,
            self._safety,
            backpressure,
            delay_changed=self.delay_changed,
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to talk to the server."""
        self._task = asyncio.create_task(self._run())
        if self._tails:
            self._tails.start(self.membership.served)

    def add(self, candidate: Candidate) -> bool:
        """Give a URL to the frontier, unless this worker did so lately; False when it did."""
        if not self.discovered.add(candidate):
            return False
        self.finished = None
        self._signal.set()
        return True

    @property
    def is_registered(self) -> bool:
        """Whether the server knows that this worker is there."""
        return self._heart.is_registered

    def next(self) -> LeasedURL | None:
        """A URL whose host may be asked now, or None. `finish_fetch` and `settle` must follow."""
        url = self._hosts.next(time.monotonic(), self._permits.take)
        if self._permits.short:
            self._signal.set()
        return url

    def due_in(self) -> float:
        """Seconds until `next` may have something; infinite when nothing is scheduled."""
        return math.inf if self._permits.short else max(0.0, self._hosts.next_at() - time.monotonic())

    def finish_fetch(self, url: LeasedURL, token: int) -> None:
        """The fetch of a URL is over, well or not: the host's next one may be scheduled."""
        if host := self._hosts.of(url.host, token):
            self._hosts.finish_fetch(host)
            if host.turn.given_up:
                self._condemned.add(url.host)
                self._signal.set()

    def settle(
        self, url: LeasedURL, token: int, settlement: Settlement, *, page: bool, size: int = 0
    ) -> None:
        """All work on a URL is done. `page`: it counts against limits of pages, `size` against those of bytes."""
        self._permits.settle(page=page)
        if page:
            self.counted["pages"] += 1
        if host := self._hosts.of(url.host, token):
            after = self.discovered.total
            self._hosts.settle(host, Settled(replace(settlement, pages=int(page), bytes=size), after))
            self._dirty.add(url.host)
        else:
            self.counted["settled_too_late"] += 1
        self._signal.set()

    def decline(self, url: LeasedURL, token: int) -> None:
        """A URL that was handed out is not for this worker, or not for now: its host is left to others for a moment."""
        self._permits.settle(page=False)
        if host := self._hosts.of(url.host, token):
            self._hosts.put_back(host, url)
            self.membership.lend(self.frontier.keys.shard(url.host))
            self._dirty.add(url.host)
        self._signal.set()

    def delay_changed(self, host: str) -> None:
        """The gap between two requests to the host has changed: the server should know."""
        self._hosts.reschedule(host)
        self._dirty.add(host)
        self._signal.set()

    def token(self, url: LeasedURL) -> int:
        """The fencing token under which a URL was leased; -1 when its lease is gone."""
        return self._hosts.token(url.host)

    async def close(self) -> None:
        """Report everything and give all hosts back. What was not begun keeps its place in the queue."""
        self._closing = True
        self.turns.abandon()
        self._signal.set()
        if self._task:
            await self._task
        if self._tails:
            await self._tails.stop()

    async def _run(self) -> None:
        away: Backoff | None = None
        while True:
            began = time.monotonic()
            try:
                if await self._restarts.detected():
                    await self._on_engine_restart()
                await self._round()
                self._tell_of_lost()
                if away:
                    logger.warning("The engine answers again: going on.")
                away = None
                if self._closing:
                    await self._give_everything_back()
                    return
            except UNAVAILABLE as error:
                self._restarts.doubt()
                self.discovered.doubt(reload=away is None)
                if away is None:
                    logger.warning("The engine is away (%s): holding, nothing is lost.", error)
                    # others wait so long for those who have hosts to hear of a restart, and lease them then
                    longest = min(_LONGEST_HOLD, self._safety.answer_seconds / 2)
                    away = Backoff(SHUTDOWN_SECONDS, self.turns.ending, longest=longest)
                # what is still being fetched or stored may be reported if the engine comes back until it is done
                if away.is_over and self._closing:
                    logger.error("The engine stays away: ending without a last report; leases will run out.")
                    return
                await away.pause()
                continue
            except Exception as error:
                logger.exception("The frontier cannot go on")
                self.failure = error
                self._finish("frontier_error")
                return
            await self._pause(time.monotonic() - began)

    async def _on_engine_restart(self) -> None:
        """An engine that was started again may have forgotten its last moments: what it took then is sent again.

        It may not know who has a host. So whoever lost one has to hear that before others lease it; and a host that
        stays is given back in the end, because of URLs that were handed out the engine may know nothing.
        """
        self.discovered.resend()
        for host in self._hosts:
            host.drained = True
        self._safety.leave_to_others(time.monotonic())
        await self._beat()
        self._restarts.handled()

    async def _pause(self, round_took: float) -> None:
        """Wait for something to report, a short while in any case, to report in batches: larger ones when busy."""
        await asyncio.sleep(min(max(_GATHER_SECONDS, _GATHER_FACTOR * round_took), _GATHER_LONGEST))
        try:
            await asyncio.wait_for(self._signal.wait(), _IDLE_SECONDS)
        except TimeoutError:
            return
        finally:
            self._signal.clear()

    async def _round(self) -> None:
        # first of all: what is added may name this worker, and nobody must take it for a dead one; and leases must not
        # run out while a full engine refuses what is added
        if not self.is_registered:
            await self._heart.on_young_engine()
        await self._beat_if_due()
        asked = time.monotonic()
        self._open(await self.frontier.regain(), asked)
        while self._condemned:
            await self._condemn(next(iter(self._condemned)))
        await self._send_found()
        if not self._hosts:
            self._permits.give_back()
        await self._report()
        if self._closing:
            return
        await self._heart.update_hold()
        if self._heart.paused or self._heart.holds:
            self._let_all_go()
        else:
            if self._permits.short:
                await self._ask_permits()
            await self._lease()
        if self._heart.paused:
            return
        if not (self._hosts or self.discovered or self.seeding or self.finished):
            await self._check_finished()

    async def _send_found(self) -> None:
        if await self.discovered.send(self._beat_if_due):
            self._lease_at = 0.0

    async def _report(self) -> None:
        names = [name for name in self._dirty if name in self._hosts]
        self._dirty.clear()
        reports = [
            self._reports.of(self._hosts[name], self.discovered.sent, closing=self._closing) for name in names
        ]
        counted, self.counted = self.counted, Counter()
        permits, met = self._permits.take_used(), set(self.answered_hosts)
        if not reports and not counted and not permits:
            return
        try:
            # first: should this worker die in between, its pages are fetched and counted again, never left uncounted
            await self.crawl.beat(counted=counted, permits=permits, seeding=self.seeding)
            await self.crawl.meet(met)
            self.answered_hosts -= met
            await self.frontier.settle_all(reports, self._reported)
        except BaseException:
            self._dirty.update(names)
            raise

    def _reported(self, report: Report, urls: list[LeasedURL] | None) -> None:
        name, host = report.lease.host, self._hosts[report.lease.host]
        del host.settled[: len(report.settled)]
        if host.settled:
            self._dirty.add(name)
            self._signal.set()
        if urls is None:
            self._hosts.lose(name)
        elif report.pause >= 0:
            self._hosts.drop(name)
        elif report.more:
            host.drained = len(urls) < report.more
            self._hosts.add_urls(host, urls)
            if not host.urls and not host.unsettled:
                self._dirty.add(name)
                self._signal.set()

    async def _condemn(self, name: str) -> None:
        """Give a host up: all that is queued for it, here and on the server, becomes dead letters."""
        reason = "the host was given up after too many failures in a row"
        buried = await self.frontier.condemn(name, reason)
        self._condemned.discard(name)
        if name in self._hosts:
            buried += self._hosts.bury_rest(self._hosts[name], reason)
            self._dirty.add(name)
            self._signal.set()
        logger.warning(
            "Giving up %s: too many failures in a row; %d further URLs are dead letters.", name, buried
        )

    async def _lease(self) -> None:
        room = self._config.lease_hosts - len(self._hosts)
        asked = time.monotonic()
        if room <= 0 or asked < self._lease_at or not self._safety.may_lease(asked):
            return
        leases = await self.frontier.lease(room, self._config.lease_urls, self.membership.served())
        self._lease_at = 0.0 if leases else asked + _IDLE_SECONDS
        self._open(leases, asked)

    def _open(self, leases: list[Lease], asked: float) -> None:
        """Hand out what was leased by a call of this monotonic time."""
        for lease in leases:
            self._hosts.open(lease, self._safety.until(asked))

    async def _beat_if_due(self) -> None:
        """However much there is to add: leases must not run out over it."""
        if self._heart.is_due:
            await self._beat()

    async def _beat(self) -> None:
        await self._heart.beat(seeding=self.seeding)
        if self._config.max_bytes and (await self.crawl.totals()).get("bytes", 0) >= self._config.max_bytes:
            self._finish("max_bytes")
        if self._alone and len(self.membership.peers) > 1:
            raise ConfigurationError('SEEN_SET = "bloom" is for a single worker, and this crawl has several')

    def _let_all_go(self) -> None:
        """The crawl is paused, or there is no room for more: what is on its way is finished, the rest goes back."""
        for host in self._hosts:
            if not host.leaving:
                host.leaving = True
                self._dirty.add(host.lease.host)
                self._signal.set()

    async def _ask_permits(self) -> None:
        if await self._permits.reserve(len(self._hosts)):
            self._wake()
        elif (
            all(host.unsettled == len(host.urls) for host in self._hosts) and await self._permits.exhausted()
        ):
            self._finish("max_pages")

    async def _check_finished(self) -> None:
        others_seeding = (await self.crawl.beat(seeding=False)).seeding
        nothing_left = not others_seeding and await self.frontier.finished()
        # what a callback found meanwhile is not on the server yet
        if nothing_left and not self.discovered:
            self._finish("finished")

    def _finish(self, reason: str) -> None:
        if self.finished != reason:
            self.finished = reason
            self._wake()

    async def _give_everything_back(self) -> None:
        while self.discovered:
            await self._send_found()
        await self.frontier.settle_all(
            [self._reports.last_of(host, self.discovered.sent) for host in self._hosts]
        )
        counted, self.counted = self.counted, Counter()
        await self.crawl.leave(counted)
        self.discovered.save()

    def _count(self, name: str, number: int) -> None:
        self.counted[name] += number

    def _tell_of_lost(self) -> None:
        """In one line, though a worker that was stopped loses all it had."""
        if lost := self._hosts.take_lost():
            self.counted["lost_leases"] += len(lost)
            logger.warning(
                "The lease of %s was lost%s: blocked, or not heard of from here for FRONTIER_LEASE_SECONDS.",
                lost[0],
                f", and {len(lost) - 1} more" if len(lost) > 1 else "",
            )
