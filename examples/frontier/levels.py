"""`scrapy levels`: how many URLs of a host are queued at each priority."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl import OpenedCrawlCommand, host_named, script_call

if TYPE_CHECKING:
    from webcrawl import Frontier, OpenedCrawl


async def levels(frontier: Frontier, host: str) -> dict[int, int]:
    """The number of queued URLs of a host at each priority, the highest priority first."""
    keys = frontier.keys.queue(frontier.keys.shard(host))
    rows = await frontier.engine.run(script_call("levels", keys, host=host))
    return {3 - row.level: row.urls for row in rows}


class Command(OpenedCrawlCommand):
    """The last argument names a crawl other than the default one."""

    usage = "[options] <https://host>"
    summary = "Count the queued URLs of a host by priority"

    def crawl_id(self, args: list[str]) -> str | None:
        if not 1 <= len(args) <= 2:
            raise UsageError("name one host")
        return super().crawl_id(args[1:])

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        await opened.check_exists()
        for priority, urls in (await levels(opened.connection.frontier, host_named(args[0]))).items():
            print(priority, urls)
