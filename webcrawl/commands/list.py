"""`scrapy list`, with the spiders of add-ons."""

from __future__ import annotations

import argparse

from scrapy.addons import AddonManager
from scrapy.commands.list import Command as ScrapyList


class Command(ScrapyList):
    """Scrapy's command, run after the add-ons have changed SPIDER_MODULES, which Scrapy itself does not do."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        AddonManager.load_pre_crawler_settings(self.settings)
        super().run(args, opts)
