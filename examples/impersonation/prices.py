"""A spider whose requests look like Chrome's: scrapy crawl prices -a url=URL."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import HtmlResponse

HANDLER = "webcrawl.crawler.download.curl.CurlDownloadHandler"


class PricesSpider(Spider):
    name = "prices"
    custom_settings = {"DOWNLOAD_HANDLERS": {"http": HANDLER, "https": HANDLER}}

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.url, meta={"impersonate": "chrome"})

    def parse(self, response: HtmlResponse) -> Iterator[Any]:
        for price in response.css(".price::text").getall():
            yield {"url": response.url, "price": price}
        for link in response.css("a.next"):
            yield response.follow(link, meta={"impersonate": "chrome"})
