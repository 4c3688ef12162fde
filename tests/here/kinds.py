"""Spiders of the kinds that Scrapy has, and one that stops in the ways that Scrapy has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, DontCloseSpider
from scrapy.http import Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, CSVFeedSpider, Rule, SitemapSpider, XMLFeedSpider


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
