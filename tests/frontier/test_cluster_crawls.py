"""Two workers crawl on a Valkey Cluster whose slots move and whose primaries die: nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from tests.cluster import LocalCluster, Node
from tests.frontier.consumer import Consumer, page_with
from tests.frontier.pages import tree
from webcrawl.frontier import Frontier, LeasedURL

Frontiers = Callable[..., Awaitable[Frontier]]


class Pair:
    """Two workers that crawl one web. `together` lists URLs of hosts that both workers held when one fetched them."""

    def __init__(self, frontiers: list[Frontier], hosts: int, pages: int) -> None:
        self.urls, self.links = tree(hosts, pages)
        self.together: list[str] = []
        self.both = [
            Consumer(frontier, partial(self._answer, number)) for number, frontier in enumerate(frontiers)
        ]

    def _answer(self, number: int, url: LeasedURL) -> Any:
        if self.both[1 - number].worker.hosts.token(url.host) != -1:
            self.together.append(url.url)
        return page_with(self.links[url.url])

    @property
    def fetched(self) -> Counter[str]:
        return self.both[0].fetched + self.both[1].fetched

    async def crawl(self, *accidents: Callable[[], object]) -> None:
        """Run the whole crawl, with accidents at even intervals."""
        for consumer in self.both:
            consumer.start(self.urls[0])
        for number, accident in enumerate(accidents, 1):
            share = len(self.urls) * number // (len(accidents) + 1)
            await self.both[0].until(lambda share=share: self.fetched.total() >= share)
            await asyncio.to_thread(accident)
        assert [await consumer.end() for consumer in self.both] == ["finished", "finished"]

    async def check(self) -> None:
        """Check that each page was fetched, no host was shared, and only lost leases led to a second fetch."""
        assert set(self.fetched) == set(self.urls)
        assert self.together == []
        frontier, crawl = self.both[0].frontier, self.both[0].crawl
        counts, totals = await frontier.counts(), await crawl.totals()
        assert (counts.done, counts.open, counts.dead) == (len(self.urls), 0, 0)
        again = self.fetched.total() - len(self.urls)
        assert again <= totals.get("settled_too_late", 0)
        assert counts.seen == len(self.urls)


@pytest.mark.slow
async def test_a_crawl_continues_while_slots_move(frontier_on: Frontiers, cluster: LocalCluster) -> None:
    pair = Pair([await frontier_on(f"w{n}", lease_seconds=8.0) for n in range(2)], hosts=200, pages=3000)
    keys = pair.both[0].frontier.keys

    def move(how: Callable[[str, Node], None], key: str) -> None:
        how(key, next(node for node in cluster.primaries if node is not cluster.owner(key)))

    moved = [keys.counters(0), keys.own(), *(keys.counters(shard) for shard in range(1, 5))]
    await pair.crawl(
        *(
            lambda key=key, how=how: move(how, key)
            for key in moved
            for how in (cluster.move, cluster.move_by_keys)
        )
    )
    await pair.check()


async def test_a_crawl_survives_the_death_of_primaries(
    frontier_on: Frontiers, cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    pair = Pair([await frontier_on(f"w{n}", lease_seconds=8.0) for n in range(2)], hosts=200, pages=3000)
    keys = pair.both[0].frontier.keys

    def fail(key: str) -> None:
        primary = cluster.owner(key)
        replica = cluster.replica_of(primary)
        primary.kill()
        cluster.takes_over(replica)
        primary.start()

    await pair.crawl(lambda: fail(keys.own()), cluster.settle, lambda: fail(keys.counters(0)))
    await pair.check()
    warnings = [record.message for record in caplog.records if "is unavailable" in record.message]
    assert 1 <= len(warnings) <= 4, "one warning for each worker and accident"
