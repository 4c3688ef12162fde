"""`scrapy levels`: how many URLs of a host are queued at each priority."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import SessionCommand, check_crawl, host_named
from webcrawl.engine.scripts import Call
from webcrawl.frontier import priority_of_level

if TYPE_CHECKING:
    from webcrawl.crawler.session import Session
    from webcrawl.frontier import Frontier


async def levels(frontier: Frontier, host: str) -> dict[int, int]:
    """The number of queued URLs of a host at each priority, the highest priority first."""
    keys = frontier.keys.queue(frontier.keys.shard(host))
    flat = await frontier.engine.run(Call("levels", keys, (host,)))
    return {priority_of_level(level): urls for level, urls in zip(flat[::2], flat[1::2], strict=True)}


class Command(SessionCommand):
    """The last argument names a crawl other than the default one."""

    def syntax(self) -> str:
        return "[options] <https://host> [crawl id, default: CRAWL_ID, the only crawl, or broad]"

    def short_desc(self) -> str:
        return "Count the queued URLs of a host by priority"

    def crawl_id(self, args: list[str]) -> str | None:
        if not 1 <= len(args) <= 2:
            raise UsageError("name one host")
        return super().crawl_id(args[1:])

    async def work(self, session: Session, args: list[str], opts: argparse.Namespace) -> None:
        await check_crawl(session)
        for priority, urls in (await levels(session.connection.frontier, host_named(args[0]))).items():
            print(priority, urls)
