"""`scrapy index`: the former name of `scrapy search --update`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.commands import search

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl


class Command(search.Command):
    """Makes or updates the index, and searches nothing."""

    usage = "[options]"

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        if args:
            raise UsageError("scrapy index takes no arguments")
        opts.update = True
        await super().work(opened, args, opts)
