"""`scrapy scheduler`: the daemon that runs the jobs of `scrapy jobs apply`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from webcrawl.config import read
from webcrawl.config.program import as_typed, program
from webcrawl.errors import CrawlError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


class Command(ScrapyCommand):
    """Any number of schedulers may run, on one machine or several. Ctrl-C and SIGTERM stop the workers cleanly; other
    schedulers, or the next scheduler, continue their iterations.
    """

    requires_project = True
    requires_crawler_process = False

    def short_desc(self) -> str:
        return "Run the jobs of scrapy jobs when they are due"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--workers",
            type=int,
            default=os.cpu_count() or 1,
            metavar="N",
            help="worker processes at a time on this machine, by default one for each processor",
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if args or opts.workers < 1:
            raise UsageError("give no argument, and at least one worker", print_help=False)
        from webcrawl.jobs.daemon import serve
        from webcrawl.jobs.scheduler import SystemClock

        assert self.settings is not None
        _begin_log(self.settings)
        given = [word for setting in opts.set for word in ("-s", setting)]
        try:
            asyncio.run(serve(self.settings, given, opts.workers, SystemClock()))
        except CrawlError as error:
            print(f"{program()} scheduler: {as_typed(error)}", file=sys.stderr)
            self.exitcode = 2


def _begin_log(settings: BaseSettings) -> None:
    """Sets up logging by the project's settings LOG_..., by default at level INFO.

    Scrapy's handler is not used, because it changes to the level of each crawl whose settings are read.
    """
    level = "LOG_LEVEL"
    if settings.getbool("LOG_ENABLED"):
        logging.basicConfig(
            level=read(settings, level) if settings.getpriority(level) else "INFO",
            filename=settings.get("LOG_FILE"),
            format=settings.get("LOG_FORMAT"),
            datefmt=settings.get("LOG_DATEFORMAT"),
        )
