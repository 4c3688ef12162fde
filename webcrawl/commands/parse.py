"""`scrapy parse`, on a temporary crawl."""

from __future__ import annotations

from scrapy.commands.parse import Command as ScrapyParse

from webcrawl.temporary.command import TemporaryCrawlCommand


class Command(TemporaryCrawlCommand, ScrapyParse):
    """Scrapy's command, which does not change the crawl and its results."""
