"""`scrapy stop`: ends all workers of a crawl, on any machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from webcrawl.crawler.command import OpenedCrawlCommand
from webcrawl.documents.values import counted

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl


class Command(OpenedCrawlCommand):
    """Ends each worker as Ctrl-C does. The queue stays: `scrapy crawl` continues the crawl."""

    summary = "Stop the workers of a crawl"

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        connection = opened.connection
        await opened.check_exists()
        workers = await connection.crawl.workers.count_alive()
        if not workers:
            print(f"Crawl {connection.keys.crawl!r} is not running.")
            return
        await connection.crawl.workers.stop()
        requests = f"the running requests of {counted(workers, 'worker')} are completed"
        print(f"Crawl {connection.keys.crawl!r} stops; {requests}.")
