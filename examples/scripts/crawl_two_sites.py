"""Crawls two sites at once in one process: python crawl_two_sites.py URL URL."""

import sys

from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.project import get_project_settings

process = AsyncCrawlerProcess(get_project_settings())
for number, url in enumerate(sys.argv[1:], start=1):
    crawler = process.create_crawler("broad")
    crawler.settings.set("CRAWL_ID", f"site{number}", priority="cmdline")
    process.crawl(crawler, seeds=url, scope="host")
process.start()
