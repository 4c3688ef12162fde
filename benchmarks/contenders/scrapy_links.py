"""Plain Scrapy: LinkExtractor, the queue in memory. Arguments: seeds (commas between), allow (a pattern of URLs)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from scrapy.http import Response, TextResponse
from scrapy.linkextractors import LinkExtractor


class Links(scrapy.Spider):
    name = "links"

    def __init__(self, seeds: str, allow: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = seeds.split(",")
        self.extractor = LinkExtractor(allow=allow)

    async def start(self) -> AsyncIterator[scrapy.Request]:
        # start_urls are not deduplicated: those that are also linked would be fetched twice
        for url in self.start_urls:
            yield scrapy.Request(url)

    def parse(self, response: Response) -> Iterator[scrapy.Request]:
        if isinstance(response, TextResponse):
            for link in self.extractor.extract_links(response):
                yield scrapy.Request(link.url)
