"""One worker of a crawl: leases hosts ahead, hands out the URLs that are due, and reports in batches.

`Worker` is what the scheduler calls; its methods return at once. `webcrawl.worker.loop` talks to the engine in a task
of its own. It adds discovered URLs before it acknowledges settled ones, so a URL leaves the frontier only when its
outlinks are in it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import replace

from webcrawl.config import FrontierConfig
from webcrawl.frontier import Candidate, Crawl, Frontier, LeasedURL, Settlement
from webcrawl.frontier.bloom import BloomSeen
from webcrawl.frontier.tails import Tails
from webcrawl.hosts.costs import Costs
from webcrawl.hosts.turns import Turns
from webcrawl.metrics.observations import Observations
from webcrawl.worker.backpressure import Backpressure
from webcrawl.worker.budgets import Budgets
from webcrawl.worker.discovered import Discovered
from webcrawl.worker.dust import Dust
from webcrawl.worker.engine_restarts import EngineRestarts
from webcrawl.worker.importance import Importance
from webcrawl.worker.leased_hosts import LeasedHosts, Settled
from webcrawl.worker.loop import Loop
from webcrawl.worker.membership import Membership
from webcrawl.worker.mined_changes import MinedChanges
from webcrawl.worker.patterns import Patterns
from webcrawl.worker.permits import Permits
from webcrawl.worker.state import WorkerState

_ENDING_PATIENCE = 2.0
MOST_DISCOVERED = 10_000
"""Discovered URLs that may wait in memory before pages with many links wait; each takes about 500 bytes."""
_LOOK_AGAIN_SECONDS = 0.02


class Worker:
    """The scheduler's side of a worker.

    `wake` is called when `next` may have a URL, or when the worker has finished. `bloom` replaces the engine's seen
    set; `tails` keeps long queues in a store; `costs` are what hosts cost the process; `importance` has the links of
    pages in work, None if it is off; `mined` reads the weights of `scrapy mine`, None if MINED is off; `patterns` has
    the records of URL patterns, `dust` the DUST rules; `budgets` counts what names and domains spend, None if they have
    no budgets; `observed` gets what metrics and traces need, None without them.
    """

    _task: asyncio.Task[None] | None = None

    def __init__(
        self,
        frontier: Frontier,
        crawl: Crawl,
        turns: Turns,
        config: FrontierConfig,
        wake: Callable[[], None],
        *,
        backpressure: Backpressure,
        patterns: Patterns,
        dust: Dust,
        bloom: BloomSeen | None = None,
        tails: Tails | None = None,
        costs: Costs | None = None,
        importance: Importance | None = None,
        mined: MinedChanges | None = None,
        budgets: Budgets | None = None,
        observed: Observations | None = None,
    ) -> None:
        restarts, self.counters = EngineRestarts(frontier.engine), Counter[str]()
        self.discovered = Discovered(frontier, restarts, bloom, self.counters)
        self.frontier, self.crawl, self.membership = frontier, crawl, Membership(crawl, frontier.keys.shards)
        self._state = state = WorkerState(
            frontier=frontier,
            crawl=crawl,
            turns=turns,
            config=config,
            wake=wake,
            hosts=LeasedHosts(turns, wake, patterns, dust, budgets, observed),
            permits=Permits(crawl, config.max_pages),
            membership=self.membership,
            discovered=self.discovered,
            counters=self.counters,
            costs=costs or Costs(),
            importance=importance,
        )
        self.hosts = state.hosts
        self.answered_hosts, self.unreachable_hosts = state.answered_hosts, state.unreachable_hosts
        self._loop = Loop(state, restarts, backpressure, mined, alone=bloom is not None)
        self.importance, self.patterns, self.budgets, self._tails = importance, patterns, budgets, tails

    @property
    def is_registered(self) -> bool:
        """Whether the engine has this worker's first heartbeat."""
        return self._loop.heartbeat.is_registered

    @property
    def finished(self) -> str | None:
        """Why the crawl is over: "finished", "max_pages", "max_bytes", "stopped" or "frontier_error"; else None."""
        return self._state.finished

    @property
    def failure(self) -> Exception | None:
        """The exception behind "frontier_error"."""
        return self._state.failure

    @property
    def waits_for_permits(self) -> bool:
        """Whether a URL is due, but the other workers have reserved the rest of the page limit."""
        return self._state.permits.short

    @property
    def seeding(self) -> bool:
        """Whether more seeds may follow, which keeps the crawl from finishing."""
        return self._state.seeding

    @seeding.setter
    def seeding(self, seeding: bool) -> None:
        self._state.seeding = seeding

    def wake(self) -> None:
        """Lets Scrapy's engine ask for a URL."""
        self._state.wake()

    def start(self) -> None:
        """Starts the loop."""
        self._task = asyncio.create_task(self._loop.run())
        if self._tails:
            self._tails.start(self.membership.served)

    def add(self, candidate: Candidate) -> bool:
        """Adds a URL to the frontier; returns False if this worker added it recently."""
        if not self.discovered.add(candidate):
            return False
        state = self._state
        state.finished = None
        state.changed.set()
        return True

    async def room(self, patience: float = math.inf) -> None:
        """Waits while many discovered URLs have not been sent to the engine, unless they no longer are.

        `patience`: the seconds after which they no longer are if the engine got none.
        """
        while (
            len(self.discovered) > MOST_DISCOVERED
            and self._task is not None
            and not self._task.done()
            and time.monotonic() - self.discovered.sent_at < patience
        ):
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    def adding_links(self, host: str) -> AbstractContextManager[None]:
        """Keeps a host from being asked while many links of one of its pages are added."""
        return self.hosts.adding_links(host)

    def next(self) -> LeasedURL | None:
        """Returns a URL whose host may be asked now, or None. Call `finish_fetch` and `settle` for it."""
        url = self.hosts.next(time.monotonic(), self._state.permits.take)
        if url is not None and self.importance:
            self.importance.begin(url)
        if url is not None and self.budgets:
            self.budgets.spend(url.host, self.importance.of(url.url) if self.importance else None)
        if self._state.permits.low:
            self._state.changed.set()
        return url

    def due_in(self) -> float:
        """Seconds until `next` may have a URL; infinite when nothing is scheduled."""
        return math.inf if self._state.permits.short else max(0.0, self.hosts.next_at() - time.monotonic())

    def finish_fetch(self, url: LeasedURL, token: int) -> None:
        """Ends the fetch of a URL, successful or not: the next URL of its host may be scheduled."""
        if host := self.hosts.of(url.host, token):
            self.hosts.finish_fetch(host)
            if host.turn.given_up:
                self._state.given_up.add(url.host)
                self._state.changed.set()

    def settle(
        self, url: LeasedURL, token: int, settlement: Settlement, *, page: bool, size: int = 0
    ) -> None:
        """Records the outcome of a URL once all work on it is done.

        `page`: it counts against page limits; `size` in bytes counts against byte limits.
        """
        self._state.permits.settle(page=page)
        if page:
            self.counters["pages"] += 1
            self._state.pages += 1
        links = self.importance.end(url.url) if self.importance else ()
        if self.importance and settlement.verdict in ("done", "again"):
            self.importance.remember(url.url, links)
        if host := self.hosts.of(url.host, token):
            after = self.discovered.total
            settlement = replace(settlement, pages=int(page), bytes=size, links=links)
            at = None if self._state.observed is None else time.monotonic()
            host.settle(Settled(settlement, after, at))
            self._state.to_report.add(url.host)
        else:
            self.counters["settled_too_late"] += 1
        self._state.changed.set()

    def decline(self, url: LeasedURL, token: int, put_off: float | None = None) -> None:
        """Returns a URL that this worker cannot fetch now; other workers get its shard for a moment.

        `put_off`: seconds for which no worker is to ask its host; the shard is kept.
        """
        self._state.permits.settle(page=False)
        if self.importance:
            self.importance.end(url.url)
        if host := self.hosts.of(url.host, token):
            host.put_back(url)
            if put_off is None:
                self.membership.lend(self.frontier.keys.shard(url.host))
            else:
                host.resumes = max(host.resumes, time.monotonic() + put_off)
            self._state.to_report.add(url.host)
        self._state.changed.set()

    def delay_changed(self, host: str) -> None:
        """Reschedules a host whose delay has changed, and reports the new delay."""
        self._state.delay_changed(host)

    def token(self, url: LeasedURL) -> int:
        """Returns the fencing token of a URL's lease; -1 when the lease is gone."""
        return self.hosts.token(url.host)

    async def close(self) -> None:
        """Reports everything and releases all hosts. URLs not handed out keep their places in the queues."""
        self._state.closing = True
        self._state.turns.abandon()
        self._state.changed.set()
        if self._task:
            await self._task
        if self._tails:
            await self._tails.stop()
        if self.importance:
            self.importance.close()


def parts_of(worker: Worker) -> tuple[WorkerState, Loop]:
    """Returns the parts of a worker, which only its metrics need."""
    return worker._state, worker._loop


def waits(worker: Worker) -> bool:
    """Whether pages may wait for the stores or the engine, which accept nothing now."""
    return worker._loop.waits


def tell_processing(worker: Worker, since: Callable[[float], Sequence[tuple[str, float]]]) -> None:
    """Lets heartbeats tell which URLs are processed for long; see `WorkerState.processing`."""
    worker._state.processing = since


@asynccontextmanager
async def turn_to_add(worker: Worker, ending: asyncio.Event) -> AsyncIterator[None]:
    """Waits until a batch of the links of a page with many of them may be added.

    A crawl that ends waits for its pages. So their batches only wait while the engine takes URLs, and let other tasks
    run in between.
    """
    if not ending.is_set():
        await worker.room()
    if ending.is_set():
        await worker.room(_ENDING_PATIENCE)
        await asyncio.sleep(0)
        yield
    else:
        async with worker.discovered.turn():
            yield
