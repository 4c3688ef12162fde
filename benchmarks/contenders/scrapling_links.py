"""Scrapling: a spider with its LinkExtractor, the queue in memory; stores nothing.

python scrapling_links.py SEEDS ALLOW PAGES CONCURRENCY A_HOST DELAY (as crawlee_links.py; DELAY in seconds)
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator

from scrapling.spiders import LinkExtractor, Request, Response, Spider

SEEDS, ALLOW, PAGES, CONCURRENCY, A_HOST, DELAY = sys.argv[1:]


class Links(Spider):
    name = "links"
    start_urls = SEEDS.split(",")
    robots_txt_obey = True
    concurrent_requests = int(CONCURRENCY)
    concurrent_requests_per_domain = int(A_HOST)
    download_delay = float(DELAY)
    logging_level = logging.WARNING
    extractor = LinkExtractor(allow=ALLOW)
    fetched = 0

    async def parse(self, response: Response) -> AsyncIterator[Request]:
        self.fetched += 1
        if self.fetched == int(PAGES):
            self.pause()
        for url in self.extractor.extract(response):
            yield response.follow(url)


if __name__ == "__main__":
    Links().start(use_uvloop=True)
