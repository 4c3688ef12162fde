"""Plain Scrapy: LinkExtractor, the queue in memory. Arguments: seeds (commas between), allow (a pattern of URLs)."""

from __future__ import annotations

from collections.abc import Iterator
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

    def parse(self, response: Response) -> Iterator[scrapy.Request]:
        if isinstance(response, TextResponse):
            for link in self.extractor.extract_links(response):
                yield scrapy.Request(link.url)
