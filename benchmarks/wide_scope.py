"""`broad` with a scope of 100,000 hosts more than its seeds, as if each of them had a seed."""

from __future__ import annotations

from collections.abc import AsyncIterator

from scrapy import Request

from webcrawl.spiders.base import BroadSpider

HOSTS = 100_000


class WideScope(BroadSpider):
    """Only the scope is wide: hosts that do not exist would be measured as failures otherwise."""

    name = "wide_scope"

    async def start(self) -> AsyncIterator[Request]:
        for number in range(HOSTS):
            self.scope.admit_key(f"site-{number}.example.org")
        async for request in super().start():
            yield request
