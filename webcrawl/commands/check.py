"""`scrapy check`, on a temporary crawl."""

from __future__ import annotations

from scrapy.commands.check import Command as ScrapyCheck

from webcrawl.temporary.command import TemporaryCrawlCommand


class Command(TemporaryCrawlCommand, ScrapyCheck):
    """Scrapy's command; it leaves the crawl and its results alone."""
