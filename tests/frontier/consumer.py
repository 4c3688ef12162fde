"""A worker with a consumer that takes its URLs, "fetches" them from a web in memory, and reports the results."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from scrapy.settings import Settings

from tests.frontier.pages import page
from webcrawl.config import FrontierConfig, PolitenessConfig
from webcrawl.errors import LeaseLost
from webcrawl.frontier import Crawl, Frontier, LeasedURL, Settlement
from webcrawl.frontier.tails import Tails
from webcrawl.hosts.politeness import Ok, Outcome
from webcrawl.hosts.turns import Turns
from webcrawl.metrics.observations import Observations
from webcrawl.stores.backpressure import Backpressure
from webcrawl.worker.host_records import Dust, HostRecords, KnownPatterns
from webcrawl.worker.link_intake import LinkIntake
from webcrawl.worker.reporter import Tally
from webcrawl.worker.worker import Worker

Answer = Callable[[LeasedURL], tuple[Settlement, bool, Iterable[str], Outcome]]
"""Returns the result for a URL: settlement, whether it is a page, its links, and the outcome for its host."""


def config(**changes: Any) -> FrontierConfig:
    """The default configuration, with changes."""
    return replace(FrontierConfig.from_settings(Settings(), "crawl"), **changes)


def page_with(links: Iterable[str] = ()) -> tuple[Settlement, bool, Iterable[str], Outcome]:
    """The result for an ordinary page."""
    return Settlement(0), True, links, Ok()


class Consumer:
    """Runs a worker. `fetched` counts fetches by URL; `refused` lists URLs whose lease was lost before the fetch."""

    def __init__(
        self,
        frontier: Frontier,
        answer: Answer,
        *,
        politeness: PolitenessConfig | None = None,
        tails: Tails | None = None,
        backpressure: Backpressure | None = None,
        dust: Dust | None = None,
        observed: Observations | None = None,
        **changes: Any,
    ) -> None:
        settings = config(**{"lease_seconds": frontier.lease_seconds, **changes})
        self.frontier = frontier
        self.crawl = Crawl(frontier.engine, frontier.keys, frontier.worker, min(12.0, settings.lease_seconds))
        self.turns = Turns(politeness or PolitenessConfig(delay=0.0))
        self._woken = asyncio.Event()
        tally = Tally(observed)
        self.worker = Worker(
            frontier,
            self.crawl,
            self.turns,
            settings,
            LinkIntake(frontier, tally.counters, HostRecords(KnownPatterns(), dust or Dust())),
            tally,
            self._woken.set,
            tails=tails,
            backpressure=backpressure or Backpressure(),
            observed=observed,
        )
        self.fetched: Counter[str] = Counter()
        self.refused: list[str] = []
        self.stopped = False
        """Whether to stop taking URLs."""
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, *seeds: str, seeding: bool = False) -> None:
        """Start with these seeds; `seeding`: the worker announces that more will come."""
        for seed in seeds:
            self.worker.add(page(seed))
        self.worker.seeding = seeding
        self.worker.start()
        self._loop = asyncio.create_task(self._consume())

    async def run(self, *seeds: str) -> str | None:
        """Run the whole crawl; returns why it ended."""
        self.start(*seeds)
        return await self.end()

    async def end(self) -> str | None:
        """Wait until the crawl is finished, then stop; returns why it ended."""
        await self.until(lambda: self.worker.finished is not None)
        await self.stop()
        return self.worker.finished

    async def stop(self) -> None:
        """Stop now and shut down cleanly."""
        self.stopped = True
        self._woken.set()
        await self._loop
        await asyncio.gather(*self._tasks)
        await self.worker.close()

    async def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait for a condition; raises TimeoutError after `seconds`."""
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.002)

    async def _consume(self) -> None:
        while not self.stopped:
            while not self.stopped and (url := self.worker.next()) is not None:
                task = asyncio.create_task(self._fetch(url, self.worker.hosts.token(url.host)))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            self._woken.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), min(0.05, max(0.0005, self.worker.due_in())))

    async def _fetch(self, url: LeasedURL, token: int) -> None:
        try:
            turn = await self.turns.take(url.host)
        except LeaseLost:
            self.refused.append(url.url)
            self.worker.finish_fetch(url, token)
            self.worker.settle(url, token, Settlement(url.index, "retry"), page=False)
            return
        self.fetched[url.url] += 1
        await asyncio.sleep(0)
        settlement, is_page, links, outcome = self._answer(url)
        self.turns.give(url.host, turn, outcome)
        self.worker.finish_fetch(url, token)
        await asyncio.sleep(0)
        for link in links:
            self.worker.add(page(link))
        settled = Settlement(url.index, settlement.verdict, settlement.delay, settlement.reason)
        self.worker.settle(url, token, settled, page=is_page)
