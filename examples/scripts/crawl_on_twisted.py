"""Crawls sites on Twisted's reactor, for programs that need it: python crawl_on_twisted.py URL..."""

import sys

from scrapy.crawler import CrawlerProcess
from scrapy.utils.project import get_project_settings

settings = get_project_settings()
settings.set("TWISTED_REACTOR_ENABLED", True, priority="cmdline")
process = CrawlerProcess(settings)
for number, url in enumerate(sys.argv[1:], start=1):
    crawler = process.create_crawler("broad")
    crawler.settings.set("CRAWL_ID", f"site{number}", priority="cmdline")
    process.crawl(crawler, seeds=url, scope="host")
process.start()
