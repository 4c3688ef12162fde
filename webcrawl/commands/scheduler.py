"""`scrapy scheduler`: the former name of `scrapy jobs run`."""

from __future__ import annotations

import argparse

from scrapy.exceptions import UsageError

from webcrawl.commands import jobs


class Command(jobs.Command):
    """Runs the jobs when they are due."""

    usage = "[options]"

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if args:
            raise UsageError("scrapy scheduler takes no arguments", print_help=False)
        super().run(["run"], opts)
