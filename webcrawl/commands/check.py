"""`scrapy check`, on a temporary crawl."""

from __future__ import annotations

import argparse

from scrapy.commands.check import Command as ScrapyCheck

from webcrawl.config import parts
from webcrawl.temporary.command import TemporaryCrawlCommand


class Command(TemporaryCrawlCommand, ScrapyCheck):
    """Scrapy's command, which does not change the crawl and its results.

    Contracts discard the items of callbacks, so Scrapy opens no pipelines of the project, nor are webcrawl's opened.
    """

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        self.settings["ITEM_PIPELINES"].update(dict.fromkeys(parts.ITEM_PIPELINES))
