"""`scrapy wacz`: the former name of `scrapy export --format wacz`."""

from __future__ import annotations

import argparse

from scrapy.exceptions import UsageError

from webcrawl.commands import export


class Command(export.Command):
    """Takes the crawl as its argument too."""

    usage = "[options] -o <file.wacz or URI>"

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) > 1:
            raise UsageError("too many arguments: name one crawl")
        opts.format, opts.crawl = "wacz", opts.crawl or next(iter(args), None)
        super().run([], opts)
