"""`scrapy shell`, on a temporary crawl."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Any

from scrapy.commands.shell import Command as ScrapyShell

from webcrawl.temporary.command import TemporaryCrawlCommand
from webcrawl.temporary.isolation import SHELL_URL

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_STOP_SECONDS = 10


class Command(TemporaryCrawlCommand, ScrapyShell):
    """Scrapy's command, which does not change the crawl and its results."""

    _used: Crawler | None = None
    _evaluates = False

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        self._evaluates = bool(opts.code)
        self.settings.set(SHELL_URL, args[0] if args else "", priority="cmdline")
        super().run(args, opts)

    def update_vars(self, vars: dict[str, Any]) -> None:
        """Is called by Scrapy after each fetch; without a response, ends the code of `-c`."""
        self._used = vars["crawler"]
        if self._evaluates and vars["request"] and not vars["response"]:
            sys.exit(1)

    def conclude(self) -> None:
        """Does nothing: a URL without a response is not a failure of an interactive shell."""

    def end(self) -> None:
        from webcrawl.temporary.scheduler import TemporaryScheduler

        scheduler = self._used and self._used.engine.scheduler
        if self._used and isinstance(scheduler, TemporaryScheduler):
            # the console is closed, but the crawl goes on in another thread
            stopping = asyncio.run_coroutine_threadsafe(self._used.engine.stop_async(), scheduler.loop)
            stopping.result(_STOP_SECONDS)
