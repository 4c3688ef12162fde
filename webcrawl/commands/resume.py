"""`scrapy resume`: continues a paused crawl."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from webcrawl.crawler.command import OpenedCrawlCommand
from webcrawl.documents.values import counted

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl


class Command(OpenedCrawlCommand):
    """Reverses `scrapy pause`. To continue a crawl whose workers were stopped, use `scrapy crawl`."""

    summary = "Continue a crawl that was paused"

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        connection = opened.connection
        await opened.check_exists()
        if not await connection.crawl.paused():
            print(f"Crawl {connection.keys.crawl!r} is not paused.")
            return
        await connection.crawl.resume()
        workers = await connection.crawl.workers.count_alive()
        print(
            f"Crawl {connection.keys.crawl!r} continues"
            + (f" with {counted(workers, 'worker')}." if workers else ": start a worker.")
        )
