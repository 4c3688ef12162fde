"""`scrapy pause`: pauses all workers of a crawl, on any machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from webcrawl.crawler.command import OpenedCrawlCommand
from webcrawl.documents.values import counted

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl


class Command(OpenedCrawlCommand):
    """The pause is stored with the crawl, so workers that start later are paused too."""

    summary = "Pause the workers of a crawl until it is resumed"

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        connection = opened.connection
        await opened.check_exists()
        if await connection.crawl.paused():
            print(f"Crawl {connection.keys.crawl!r} is already paused.")
            return
        await connection.crawl.pause()
        workers = await connection.crawl.workers.count_alive()
        rest = "; no worker is running."
        if workers:
            rest = f"; the running requests of {counted(workers, 'worker')} are completed."
        print(f"Crawl {connection.keys.crawl!r} is paused{rest}")
