"""The types that programs see which look at a crawl, and what catching an error gives."""

from __future__ import annotations

from typing import Any, assert_type

from scrapy.settings import Settings

from webcrawl import ConfigurationError, CrawlError, Frontier, OpenedCrawl, StoreError, crawl_exposition


async def metrics(settings: Settings) -> str:
    async with OpenedCrawl(settings, "broad") as opened:
        await opened.connection.connect()
        await opened.check_exists()
        assert_type(opened.connection.frontier, Frontier)
        exposition = await crawl_exposition(opened.connection.frontier, opened.connection.crawl)
        assert_type(exposition.text, bytes)
        return exposition.text.decode()


def explained(error: Exception) -> str:
    if isinstance(error, ConfigurationError | StoreError):
        assert_type(error.args, tuple[Any, ...])
        return str(error)
    return "a crawl failed" if isinstance(error, CrawlError) else "unknown"
