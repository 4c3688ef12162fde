"""`scrapy resume`: a crawl that was paused goes on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from webcrawl.crawler.command import SessionCommand, check_crawl

if TYPE_CHECKING:
    from webcrawl.crawler.session import Session


class Command(SessionCommand):
    """The reverse of `scrapy pause`. A crawl whose workers were stopped goes on with `scrapy crawl` instead."""

    def syntax(self) -> str:
        return "[options] [crawl id, default: CRAWL_ID or broad]"

    def short_desc(self) -> str:
        return "Let a crawl go on that was paused with scrapy pause"

    async def work(self, session: Session, args: list[str], opts: argparse.Namespace) -> None:
        connection = session.connection
        await check_crawl(session)
        if not await connection.crawl.paused():
            print(f"Crawl {connection.keys.crawl!r} is not paused.")
            return
        await connection.crawl.resume()
        workers = await connection.crawl.workers.count_alive()
        print(
            f"Crawl {connection.keys.crawl!r} goes on"
            + (f"; workers: {workers}." if workers else ": start a worker.")
        )
