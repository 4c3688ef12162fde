"""Crawls sites one after the other, inside a program that runs asyncio: python crawl_in_turn.py URL..."""

import asyncio
import sys

from scrapy.crawler import AsyncCrawlerRunner
from scrapy.utils.log import configure_logging
from scrapy.utils.project import get_project_settings


async def pages_of(runner: AsyncCrawlerRunner, url: str, number: int) -> int:
    """Crawls one site into a folder of its own; returns the number of pages."""
    crawler = runner.create_crawler("broad")
    crawler.settings.set("DATA_DIR", f"site{number}", priority="cmdline")
    await runner.crawl(crawler, seeds=url, scope="host")
    return int(crawler.stats.get_value("item_scraped_count", 0))


async def main() -> None:
    settings = get_project_settings()
    configure_logging(settings)
    runner = AsyncCrawlerRunner(settings)
    for number, url in enumerate(sys.argv[1:], start=1):
        print(url, await pages_of(runner, url, number))


asyncio.run(main())
