"""`scrapy view`, on a temporary crawl."""

from __future__ import annotations

from scrapy.commands.view import Command as ScrapyView

from webcrawl.temporary.command import TemporaryCrawlCommand


class Command(TemporaryCrawlCommand, ScrapyView):
    """Scrapy's command, which does not change the crawl and its results."""
