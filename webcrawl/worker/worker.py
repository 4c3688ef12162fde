"""One worker of a crawl: leases hosts ahead, hands out the URLs that are due, and settles them.

The methods that the scheduler calls return at once. A task of the worker talks to the engine in rounds: it sends
heartbeats, adds discovered URLs, reports settled URLs and leases hosts. It adds discovered URLs before it acknowledges
settled URLs, so a URL leaves the frontier only when its outlinks are in it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from webcrawl.config import FrontierConfig
from webcrawl.engine.backoff import Backoff, IdleTime, Polling
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import StoreError
from webcrawl.frontier import Candidate, Crawl, Frontier, LeasedURL, Settlement
from webcrawl.frontier.figures import FETCHES, SITE_FETCHES
from webcrawl.frontier.tails import Tails
from webcrawl.hosts.costs import Costs
from webcrawl.hosts.turns import Turns
from webcrawl.metrics.observations import Observations
from webcrawl.stores.backpressure import (
    POLL_SECONDS,
    SHUTDOWN_SECONDS as STORE_SHUTDOWN_SECONDS,
    Backpressure,
)
from webcrawl.stores.weights_file import MinedChanges
from webcrawl.worker.hand_over import HandOver
from webcrawl.worker.heartbeat import Heartbeat, Processing, VitalsReports
from webcrawl.worker.leased_host import Settled
from webcrawl.worker.leased_hosts import LeasedHosts
from webcrawl.worker.leasing import EngineWatch, HostLeasing, LeaseSafety, LeaseWindow
from webcrawl.worker.link_intake import LinkIntake
from webcrawl.worker.membership import AHEAD_SECONDS, Membership, Permits
from webcrawl.worker.reporter import Reporter, Tally
from webcrawl.worker.rule_changes import RuleChanges

if TYPE_CHECKING:
    from webcrawl.worker.recrawl_planner import RecrawlPlanner  # SQLAlchemy is slow to import

logger = logging.getLogger(__name__)

_GATHER_SECONDS = 0.01
_GATHER_LONGEST = 0.05
_GATHER_FACTOR = 4
_IDLE_SECONDS, _LONGEST_IDLE = 0.1, 0.5
_LONGEST_FINISH_POLL, _LONGEST_WORTH_POLL = 1.0, 3.0


class Worker:
    """One process of a crawl.

    frontier, crawl  the queue of URLs and the record of the crawl, in the engine
    turns            decide when a host may be asked
    intake           takes in the links of pages
    tally            what is counted for the totals of the crawl; `intake` counts into it, too
    wake             is called when `next` may have a URL, or when the worker has finished
    backpressure     tells whether the stores accept more
    tails            keep long queues in a store; None keeps them in the engine
    costs            what hosts cost the process
    mined            reads the weights of `scrapy mine`; None if MINED is off
    plan             makes the planner of a recrawl from the counters and a call to lease again; None without RECRAWL
    observed         gets what metrics and traces need; None without them
    processing       returns the pages that are processed
    """

    def __init__(
        self,
        frontier: Frontier,
        crawl: Crawl,
        turns: Turns,
        config: FrontierConfig,
        intake: LinkIntake,
        tally: Tally,
        wake: Callable[[], None],
        *,
        backpressure: Backpressure,
        tails: Tails | None = None,
        costs: Costs | None = None,
        mined: MinedChanges | None = None,
        plan: Callable[[Counter[str], Callable[[], None]], RecrawlPlanner] | None = None,
        observed: Observations | None = None,
        processing: Processing = lambda _: (),
    ) -> None:
        self.intake, self.tally, self.wake = intake, tally, wake
        self.seeding = True
        """Whether more seeds may follow, which keeps the crawl from finishing."""
        self.finished: str | None = None
        """Why the crawl is over: "finished", "max_pages", "max_bytes", "stopped" or "frontier_error"; else None."""
        self.on_given_up: Callable[[str], None] = lambda host: None
        """Called with each host whose URLs have become dead letters."""
        self.failure: Exception | None = None
        """The exception behind "frontier_error"."""
        self._frontier, self._crawl, self._turns = frontier, crawl, turns
        self._tails, self._mined = tails, mined
        self._changed = asyncio.Event()
        """Set when the task has something to do."""
        self._idle = IdleTime()
        self._finish_polling = Polling(self._idle.seconds, _IDLE_SECONDS, _LONGEST_FINISH_POLL)
        self._worth_polling = Polling(self._idle.seconds, 0.0, _LONGEST_WORTH_POLL)
        self.membership = membership = Membership(crawl, frontier.keys.shards, alone=intake.is_alone)
        self.hosts = hosts = LeasedHosts(
            turns, intake, wake, self._changed, observed, frontier.traffic, frontier.low_share
        )
        self.permits = permits = Permits(crawl, config.max_pages)
        window = LeaseWindow(
            config.lease_hosts, config.most_lease_hosts, config.lease_urls, turns.config.delay
        )
        safety = LeaseSafety(config.lease_seconds, turns.config.delay, turns.addresses)
        self.engine = EngineWatch(frontier.engine, turns.ending, safety.answer_seconds / 2)
        rules = RuleChanges(frontier, turns, hosts, membership)
        self._leasing = HostLeasing(frontier, turns, hosts, membership, window, safety, rules, self._idle)
        self._reporter = Reporter(
            frontier, crawl, turns, hosts, intake, membership, permits, window, tally, self._idle
        )
        self._hand_over = HandOver(frontier, turns, hosts, self._reporter)
        self.heartbeat = Heartbeat(
            frontier,
            crawl,
            hosts,
            membership,
            permits,
            safety,
            backpressure,
            tally,
            VitalsReports(frontier, crawl, hosts, membership, permits, costs or Costs(), processing),
            config.max_bytes,
            self._finish,
        )
        self._planner = plan(tally.counters, self._leasing.retry_now) if plan else None
        self._given_up: set[str] = set()
        """Hosts whose queued URLs are to become dead letters."""
        self._store_at = -math.inf
        """Monotonic time before which a store that has failed is not asked which URLs were seen."""
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._giving_way: asyncio.Task[NoReturn] | None = None

    @property
    def waits(self) -> bool:
        """Whether pages may wait for the stores or the engine, which accept nothing now."""
        return self.engine.is_away or bool(self.heartbeat.backpressure.reason)

    def add(self, candidate: Candidate) -> bool:
        """Adds a URL to the frontier; returns False if this worker added it recently."""
        if not self.intake.add(candidate):
            return False
        self.finished = None
        self._changed.set()
        return True

    def look(self) -> None:
        """Makes the worker ask the engine for hosts now, because other calls have queued URLs."""
        self._leasing.retry_now()
        self._changed.set()

    def keep_date(self, url: str, seconds: float) -> bool:
        """Keeps the date of a spider for a stored page in the plan; returns whether the plan keeps it."""
        return self._planner is not None and self._planner.keep_date(url, seconds)

    def next(self) -> LeasedURL | None:
        """Returns a URL whose host may be asked now, or None. Call `finish_fetch` and `settle` for it."""
        url = self.hosts.next(time.monotonic(), self.permits.take)
        if url is not None:
            self.intake.begin(url)
        if self.permits.low:
            self._changed.set()
        return url

    def due_in(self) -> float:
        """Seconds until `next` may have a URL; infinite when nothing is scheduled."""
        return math.inf if self.permits.short else max(0.0, self.hosts.next_at() - time.monotonic())

    def finish_fetch(self, url: LeasedURL, token: int) -> None:
        """Ends the fetch of a URL, successful or not: the next URL of its host may be scheduled."""
        if host := self.hosts.of(url.host, token):
            self.hosts.finish_fetch(host)
            if host.turn.given_up:
                self._given_up.add(url.host)
                self._changed.set()

    def settle(
        self, url: LeasedURL, token: int, settlement: Settlement, *, page: bool, size: int = 0
    ) -> None:
        """Records the outcome of a URL once all work on it is done.

        `page`: it counts against page limits; `size` in bytes counts against byte limits.
        """
        self.permits.settle(page=page)
        if page:
            self.tally.counters["pages"] += 1
        if is_fetched := settlement.verdict in ("done", "again"):
            self.tally.counters[f"{FETCHES}{url.fetch_class}"] += 1
            if (traffic := self._frontier.traffic) and (site := traffic.site_of(url.host)):
                self.tally.counters[f"{SITE_FETCHES}{site} {url.fetch_class}"] += 1
        links = self.intake.end(url.url, fetched=is_fetched)
        if host := self.hosts.of(url.host, token):
            settlement = replace(settlement, pages=int(page), bytes=size, links=links)
            at = None if host.arrivals is None else time.monotonic()
            host.settle(Settled(settlement, self.intake.total, at))
            self.hosts.to_report.add(url.host)
        else:
            self.tally.counters["settled_too_late"] += 1
        self._changed.set()

    def decline(self, url: LeasedURL, token: int, put_off: float | None = None) -> None:
        """Returns a URL that this worker cannot fetch now; other workers get its shard for a moment.

        `put_off`: seconds for which no worker is to ask its host; the shard is kept.
        """
        self.permits.settle(page=False)
        self.intake.end(url.url, fetched=False)
        if host := self.hosts.of(url.host, token):
            host.put_back(url)
            if put_off is None:
                self.membership.lend(self._frontier.keys.shard(url.host))
            else:
                host.resumes = max(host.resumes, time.monotonic() + put_off)
            self.hosts.to_report.add(url.host)
        self._changed.set()

    def start(self) -> None:
        """Starts the task that talks to the engine."""
        self._task = asyncio.create_task(self._run())
        self.intake.sender = self._task
        if self._frontier.weight > 0:
            self._giving_way = asyncio.create_task(self._hand_over.run())
        if self._tails:
            self._tails.start(self.membership.served, self._idle.seconds)
        if self._frontier.cold:
            self._frontier.cold.start(self.membership.served, self.tally.counters)
        if self._frontier.cold_hosts:
            self._frontier.cold_hosts.start(self.membership.served)
        if self._planner:
            self._planner.start()

    async def close(self) -> None:
        """Reports everything and releases all hosts. URLs not handed out keep their order in the queues."""
        self._closing = True
        if self._giving_way:
            self._giving_way.cancel()
        if self._planner:
            await self._planner.stop()
        self._turns.abandon()
        self._changed.set()
        if self._task:
            await self._task
        if self._tails:
            await self._tails.stop()
        if self._frontier.cold:
            await self._frontier.cold.stop()
        if self._frontier.cold_hosts:
            await self._frontier.cold_hosts.stop()
        if self.intake.credit:
            self.intake.credit.close()

    def _finish(self, reason: str) -> None:
        """Ends the crawl for this worker."""
        if self.finished != reason:
            self.finished = reason
            self.wake()

    async def _run(self) -> None:
        """Runs rounds until everything is reported, or until the frontier cannot go on."""
        while True:
            began = time.monotonic()
            try:
                if await self.engine.was_restarted():
                    await self._on_engine_restart()
                await self._round()
                self._reporter.log_lost_leases()
                self.engine.answered()
                if self._closing:
                    await self._report_last()
                    return
            except UNAVAILABLE as error:
                self.intake.doubt(reload=not self.engine.is_away)
                if not await self.engine.wait(error, closing=self._closing):
                    return
                continue
            except Exception as error:
                logger.exception("The frontier failed; the crawl stops.")
                self.failure = error
                self._finish("frontier_error")
                return
            await self._pause(time.monotonic() - began)

    async def _on_engine_restart(self) -> None:
        """Repeats what a restarted engine may have lost.

        The engine may not know the leases of this worker. A heartbeat finds out which hosts were lost, before others
        lease them. Every other host is released once its URLs are settled.
        """
        self.intake.engine_restarted()
        for host in self.hosts:
            host.frozen = True
        self._leasing.safety.leave_to_others(time.monotonic())
        await self.heartbeat.beat(seeding=self.seeding)
        self.engine.restart_handled()

    async def _pause(self, round_took: float) -> None:
        """Waits until there is something to do. Pauses shortly in any case, which makes batches; longer under load."""
        await asyncio.sleep(min(max(_GATHER_SECONDS, _GATHER_FACTOR * round_took), _GATHER_LONGEST))
        try:
            async with asyncio.timeout(self._idle.pause(_IDLE_SECONDS, _LONGEST_IDLE)):
                await self._changed.wait()
            self._idle.end()
        except TimeoutError:
            return
        finally:
            self._changed.clear()

    async def _round(self) -> None:
        heartbeat = self.heartbeat
        # the heartbeat comes first: entries may name this worker, which must count as alive by then; and leases must
        # not expire while a full engine rejects what is added
        if not heartbeat.is_registered:
            await heartbeat.check_engine_age()
        await self._beat_if_due()
        await self._leasing.regain()
        while self._given_up:
            await self._reporter.give_up(host := next(iter(self._given_up)))
            self._given_up.discard(host)
            self.on_given_up(host)
        if self._mined:
            await self._mined.update()
        await self._send_discovered()
        if not self.hosts:
            self.permits.give_back()
        await self._leasing.rules.update()
        await self._reporter.send(seeding=self.seeding, closing=self._closing)
        if self._closing:
            return
        if self._worth_polling.is_due:
            self._worth_polling.polled()
            await self.intake.send_worth_if_due(self.membership.served(), self._reporter.report_owned)
        await heartbeat.update_hold()
        if heartbeat.paused or heartbeat.holds:
            self.hosts.release_all()
        elif self.engine.has_reconnected:
            self._changed.set()  # a restarted engine may not know which hosts others use
        else:
            await self._update_permits()
            await self._leasing.lease()
        if heartbeat.paused:
            return
        if not (self.hosts or self.intake or self.seeding or self.finished or self._planner):
            await self._check_finished_if_due()

    async def _beat_if_due(self) -> None:
        if self.heartbeat.is_due:
            await self.heartbeat.beat(seeding=self.seeding)

    async def _send_discovered(self) -> None:
        """Sends discovered URLs, with heartbeats in between so that no lease expires meanwhile.

        The worker holds while a store fails that tells which URLs were seen; the URLs wait.
        """
        backpressure = self.heartbeat.backpressure
        if time.monotonic() < self._store_at:
            return
        try:
            if await self.intake.send(self._beat_if_due):
                self._leasing.retry_now()
            backpressure.unseen = ""
        except StoreError as error:
            backpressure.unseen = f"which URLs were seen: {error}"
            self._store_at = time.monotonic() + POLL_SECONDS

    async def _report_last(self) -> None:
        backoff = Backoff(STORE_SHUTDOWN_SECONDS, self._turns.ending)
        while self.intake:
            await self._send_discovered()
            if reason := self.heartbeat.backpressure.unseen:
                if backoff.is_over:
                    logger.error(
                        "%d discovered URLs are left out (%s): their pages will be fetched again.",
                        len(self.intake),
                        reason,
                    )
                    break
                await backoff.pause()
                await self._beat_if_due()
        await self.heartbeat.vitals.send_last()
        await self._reporter.send_last()

    async def _update_permits(self) -> None:
        permits = self.permits
        permits.give_back_unneeded(self.hosts.due(AHEAD_SECONDS))
        if not permits.low:
            return
        was_short = permits.short
        if await permits.reserve(self.hosts.due(AHEAD_SECONDS)):
            if was_short:
                self.wake()
        elif all(host.unsettled == len(host.urls) for host in self.hosts) and await permits.exhausted():
            self._finish("max_pages")

    async def _check_finished_if_due(self) -> None:
        if not self._finish_polling.is_due:
            return
        self._finish_polling.polled()
        others_seeding = (await self._crawl.workers.beat(seeding=False)).seeding
        nothing_left = not others_seeding and await self._frontier.finished()
        # a callback may have discovered URLs meanwhile that the engine does not have yet
        if nothing_left and not self.intake:
            self._finish("finished")
