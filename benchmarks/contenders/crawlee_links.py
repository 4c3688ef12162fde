"""Crawlee for Python: ParselCrawler, everything in memory.

python crawlee_links.py SEEDS ALLOW PAGES CONCURRENCY (seeds with commas between, a pattern of URLs, 0 for all pages)
"""

from __future__ import annotations

import asyncio
import re
import sys

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.http_clients import ImpitHttpClient
from crawlee.storage_clients import MemoryStorageClient


async def main(seeds: str, allow: str, pages: str, concurrency: str) -> None:
    at_once = int(concurrency)
    crawler = ParselCrawler(
        # it starts with few concurrent requests and slowly adds more; the comparison should not include that
        concurrency_settings=ConcurrencySettings(
            min_concurrency=at_once, desired_concurrency=at_once, max_concurrency=at_once
        ),
        # the client trusts only the authorities of browsers
        http_client=ImpitHttpClient(verify=False),
        storage_client=MemoryStorageClient(),
        respect_robots_txt_file=True,
        max_requests_per_crawl=int(pages) or None,
    )

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        await context.enqueue_links(strategy="all", include=[re.compile(allow)])

    await crawler.run(seeds.split(","))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
