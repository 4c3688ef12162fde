"""`scrapy settings`, with the values that add-ons set."""

from __future__ import annotations

import argparse

from scrapy.commands.settings import Command as ScrapySettings

from webcrawl.crawler.crawl_settings import completed


class Command(ScrapySettings):
    """Scrapy's command, after the add-ons have changed the settings; Scrapy's own does not ask them."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        self.settings = completed(self.settings)
        super().run(args, opts)
