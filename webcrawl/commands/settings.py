"""`scrapy settings`, with the values that add-ons set."""

from __future__ import annotations

import argparse

from scrapy.commands.settings import Command as ScrapySettings

from webcrawl.crawler.crawl_settings import completed


class Command(ScrapySettings):
    """Scrapy's command, run after the add-ons have changed the settings, which Scrapy itself does not do."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        self.settings = completed(self.settings)
        super().run(args, opts)
