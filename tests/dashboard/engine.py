"""Crawls that tests make in the engine of a site, without workers, to look at them and act on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tests.dashboard.site import CrawledSite
from webcrawl.frontier import Frontier, Settlement
from webcrawl.opened import OpenedCrawl

T = TypeVar("T")


def in_engine(site: CrawledSite, crawl: str, work: Callable[[OpenedCrawl], Awaitable[T]]) -> T:
    """Returns what `work` returns for a crawl, which is begun if there is none of that name."""

    async def run(opened: OpenedCrawl) -> T:
        opened.connection.use(crawl)
        await opened.connection.crawl.begin()
        return await work(opened)

    return site.look(run)


async def bury(frontier: Frontier, letters: Sequence[tuple[str, str]]) -> None:
    """Makes dead letters: URL and reason of each."""
    reasons = dict(letters)
    while leases := await frontier.lease(100, 100):
        for lease in leases:
            dead = [Settlement(url.index, "dead", reason=reasons[url.url]) for url in lease.urls]
            await frontier.release(lease, dead)
