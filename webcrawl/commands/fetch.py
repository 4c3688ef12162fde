"""`scrapy fetch`, on a temporary crawl."""

from __future__ import annotations

from scrapy.commands.fetch import Command as ScrapyFetch

from webcrawl.temporary.command import TemporaryCrawlCommand


class Command(TemporaryCrawlCommand, ScrapyFetch):
    """Scrapy's command, which does not change the crawl and its results."""
