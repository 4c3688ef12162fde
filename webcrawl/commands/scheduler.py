"""`scrapy scheduler`: the daemon that runs the jobs of `scrapy jobs apply`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from webcrawl.errors import CrawlError


class Command(ScrapyCommand):
    """Any number may run, on one machine or several. Ctrl-C and SIGTERM stop the workers cleanly; other schedulers, or
    the next one, go on with their iterations.
    """

    requires_project = True
    requires_crawler_process = False

    def short_desc(self) -> str:
        return "Run the jobs of scrapy jobs apply when they are due, until it is stopped"

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
        from scrapy.utils.log import configure_logging

        from webcrawl.jobs.clock import SystemClock
        from webcrawl.jobs.daemon import serve

        assert self.settings is not None
        configure_logging(self.settings)
        given = [word for one in opts.set for word in ("-s", one)]
        try:
            asyncio.run(serve(self.settings, given, opts.workers, SystemClock()))
        except CrawlError as error:
            print(f"scrapy scheduler: {error}", file=sys.stderr)
            self.exitcode = 2
