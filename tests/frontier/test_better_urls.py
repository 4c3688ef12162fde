"""A worker fetches a URL of a higher priority before the URLs that it has leased ahead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.frontier.consumer import Consumer, page_with
from tests.frontier.pages import page
from webcrawl.frontier import Candidate, Frontier, Settlement, level_of_priority
from webcrawl.hosts.politeness import Ok

Frontiers = Callable[..., Frontier]


class Stepper(Consumer):
    """Fetches one URL at a time, when the test says so."""

    def __init__(self, frontier: Frontier) -> None:
        super().__init__(frontier, lambda url: page_with())
        self.order: list[str] = []

    async def fetch_next(self, *found: Candidate) -> None:
        """Fetch the next URL, on whose page these URLs are found."""
        while (url := self.worker.next()) is None:
            await asyncio.sleep(0.005)
        token = self.worker.hosts.token(url.host)
        self.turns.give(url.host, await self.turns.take(url.host), Ok())
        self.order.append(url.path)
        for one in found:
            self.worker.add(one)
        self.worker.finish_fetch(url, token)
        self.worker.settle(url, token, Settlement(url.index), page=True)

    async def until_counts(self, *, done: int, leased: int) -> None:
        """Wait until the engine has `done` results, and the worker knows its leased URLs."""
        async with asyncio.timeout(60):
            while (await self.frontier.counts()).done != done:
                await asyncio.sleep(0.005)
        await self.until(lambda: [host.unsettled for host in self.worker.hosts] == [leased])


async def test_better_urls_are_leased_before_those_ahead_are_fetched(frontier_of: Frontiers) -> None:
    consumer, other_worker = Stepper(frontier_of()), frontier_of(worker="w2")
    await other_worker.add([page(f"http://a.test/{n}") for n in range(30)])
    consumer.worker.start()
    await consumer.until_counts(done=0, leased=20)
    await consumer.fetch_next(
        page("http://a.test/own", level=level_of_priority(7)), page("http://a.test/usual")
    )
    await consumer.until_counts(done=1, leased=20)
    await other_worker.add([page("http://a.test/other", level=level_of_priority(100))])
    await consumer.fetch_next()
    await consumer.until_counts(done=2, leased=20)
    for _ in range(3):
        await consumer.fetch_next()
    await consumer.worker.close()
    assert consumer.order == ["/0", "/own", "/other", "/1", "/2"]
    # the rest returned to the queue in order
    (lease,) = await other_worker.lease(1, 100)
    assert [url.path for url in lease.urls] == [*(f"/{n}" for n in range(3, 30)), "/usual"]


async def test_better_urls_are_leased_although_the_host_had_no_more(frontier_of: Frontiers) -> None:
    consumer = Stepper(frontier_of())
    await consumer.frontier.add([page(f"http://a.test/{n}") for n in range(3)])
    consumer.worker.start()
    await consumer.until_counts(done=0, leased=3)
    await consumer.fetch_next()
    await consumer.until_counts(done=1, leased=2)
    await consumer.fetch_next(page("http://a.test/own", level=level_of_priority(-2)))
    await consumer.until_counts(done=2, leased=2)
    await consumer.frontier.add([page("http://a.test/better", level=level_of_priority(1))])
    consumer.worker.hosts.delay_changed("http://a.test")
    await consumer.until_counts(done=2, leased=3)
    await consumer.fetch_next()
    await consumer.fetch_next()
    await consumer.until_counts(done=4, leased=1)
    await consumer.fetch_next()
    await consumer.worker.close()
    assert consumer.order == ["/0", "/1", "/better", "/2", "/own"]
