"""`scrapy pause`: all workers of a crawl rest, whichever machine they run on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from webcrawl.crawler.command import SessionCommand, check_crawl

if TYPE_CHECKING:
    from webcrawl.crawler.session import Session


class Command(SessionCommand):
    """Kept with the crawl: workers that start later rest too."""

    def syntax(self) -> str:
        return "[options] [crawl id, default: CRAWL_ID or broad]"

    def short_desc(self) -> str:
        return "Let the workers of a crawl rest until scrapy resume"

    async def work(self, session: Session, args: list[str], opts: argparse.Namespace) -> None:
        connection = session.connection
        await check_crawl(session)
        if await connection.crawl.paused():
            print(f"Crawl {connection.keys.crawl!r} is paused already.")
            return
        await connection.crawl.pause()
        workers = await connection.crawl.workers.count_alive()
        rest = (
            f": {workers} at work finish what is on its way, and wait." if workers else "; none works on it."
        )
        print(f"Crawl {connection.keys.crawl!r} is paused{rest}")
