"""Spiders of the kinds that Scrapy has, one that stops in the ways that Scrapy has, and one that fails in them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, DontCloseSpider, NotSupported
from scrapy.http import Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, CSVFeedSpider, Rule, SitemapSpider, XMLFeedSpider
from twisted.python.failure import Failure


class Crawling(CrawlSpider):  # type: ignore[misc]
    name = "crawling"
    rules = (
        Rule(LinkExtractor(allow="/list")),
        Rule(LinkExtractor(allow="/article"), callback="parse_article", cb_kwargs={"kind": "article"}),
    )

    def __init__(self, home: str, **kwargs: Any) -> None:
        self.start_urls = [home + "/"]
        super().__init__(**kwargs)

    def parse_article(self, response: Response, kind: str) -> Iterator[Any]:
        yield {"kind": kind, "text": response.text, "link": response.meta["link_text"]}


class Maps(SitemapSpider):  # type: ignore[misc]
    name = "maps"
    sitemap_rules = [("/article", "parse_article")]

    def __init__(self, home: str, **kwargs: Any) -> None:
        self.sitemap_urls = [home + "/robots.txt"]
        super().__init__(**kwargs)

    def parse_article(self, response: Response) -> Iterator[Any]:
        yield {"text": response.text}


class Xml(XMLFeedSpider):  # type: ignore[misc]
    name = "xml"
    itertag = "b"

    def __init__(self, home: str, **kwargs: Any) -> None:
        self.start_urls = [home + "/page.xml"]
        super().__init__(**kwargs)

    def parse_node(self, response: Response, selector: Any) -> Iterator[Any]:
        yield {"text": selector.xpath("text()").get()}


class Csv(CSVFeedSpider):  # type: ignore[misc]
    name = "csv"

    def __init__(self, home: str, **kwargs: Any) -> None:
        self.start_urls = [home + "/table.csv"]
        super().__init__(**kwargs)

    def parse_row(self, response: Response, row: dict[str, str]) -> Iterator[Any]:
        yield row


class Stopping(Spider):
    """Goes on once when it is idle, then stops with a reason of its own."""

    name = "stopping"

    def __init__(self, home: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.home = home
        self.start_urls = [home + "/article1"]
        self.again = True

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.on_idle, signals.spider_idle)
        return spider

    def on_idle(self) -> None:
        if self.again:
            self.again = False
            assert self.crawler.engine is not None
            self.crawler.engine.crawl(Request(self.home + "/article2", self.stop))
            raise DontCloseSpider

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield {"text": response.text}

    def stop(self, response: Response) -> Iterator[Any]:
        yield {"text": response.text}
        raise CloseSpider("enough")


class Failing(Spider):
    """Requests URLs that cannot be fetched, and writes the signals and the statistics of the crawl into `facts`."""

    name = "failing"

    def __init__(self, home: str, facts: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.home = home
        self.facts = Path(facts)
        self.reached = Counter[str]()
        self.left = Counter[str]()

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.on_reached, signals.request_reached_downloader)
        crawler.signals.connect(spider.on_left, signals.request_left_downloader)
        crawler.signals.connect(spider.on_stopped, signals.engine_stopped)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        yield Request("http://nowhere.test/", errback=self.failed)
        yield Request("foo://bar/", errback=self.failed)
        yield Request("foo://bar/without-errback")
        yield Request(self.home + "/unwell", errback=self.failed)
        yield Request(self.home + "/cut", self.last)
        yield Request(self.home + "/closed", errback=self.failed)
        yield Request(self.home + "/article1", self.article)

    async def article(self, response: Response) -> AsyncIterator[Any]:
        assert self.crawler.engine is not None
        try:
            await self.crawler.engine.download_async(Request("foo://bar/awaited"))
        except NotSupported as error:
            yield {"url": "foo://bar/awaited", "error": type(error).__name__}
        yield Request("data:,x", errback=self.failed)

    def failed(self, failure: Failure) -> Iterator[Any]:
        url = failure.request.url  # type: ignore[attr-defined]
        yield {"url": url, "error": type(failure.value).__name__}
        if url.startswith("data:"):
            yield Request(self.home + "/article2", self.last)

    def last(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "error": ""}

    def on_reached(self, request: Request) -> None:
        self.reached[request.url] += 1

    def on_left(self, request: Request) -> None:
        self.left[request.url] += 1

    def on_stopped(self) -> None:
        assert self.crawler.stats is not None
        facts = {"reached": self.reached, "left": self.left, "stats": self.crawler.stats.get_stats()}
        self.facts.write_text(json.dumps(facts, default=str))


class NotOpening:
    """A pipeline that cannot be opened."""

    def open_spider(self) -> None:
        raise RuntimeError("this pipeline does not open")
