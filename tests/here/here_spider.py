"""A spider that uses what a Scrapy user knows, and writes down what it saw into a JSON file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from itemloaders.processors import TakeFirst
from scrapy import Field, FormRequest, Item, Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem, IgnoreRequest
from scrapy.http import JsonRequest, Response
from scrapy.loader import ItemLoader
from twisted.python.failure import Failure

from webcrawl.crawler.pages.from_response import page_of


class Product(Item):  # type: ignore[misc]
    """A classic item."""

    name = Field(output_processor=TakeFirst())
    price = Field()


@dataclass
class Shop:
    """A dataclass as an item."""

    city: str


class OwnDownloaderMiddleware:
    """A downloader middleware of a user."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls()

    async def process_request(self, request: Request, spider: Spider | None = None) -> None:
        if request.url.endswith("/ignored"):
            raise IgnoreRequest("a middleware of the user refuses it")
        request.headers["X-Own"] = "middleware"


class OwnSpiderMiddleware:
    """A spider middleware of a user."""

    async def process_spider_output(
        self, response: Response, result: Any, spider: Spider | None = None
    ) -> AsyncIterator[Any]:
        async for one in result:
            yield one
        yield {"kind": "from a spider middleware", "url": response.url}


class OwnPipeline:
    """An item pipeline of a user."""

    def process_item(self, item: Any, spider: Spider | None = None) -> Any:
        if isinstance(item, dict) and item.get("kind") == "dropped":
            raise DropItem("the user does not want it")
        if isinstance(item, dict) and item.get("kind") == "broken":
            raise ValueError("a defect of the user's pipeline")
        if isinstance(item, dict):
            item["seen_by"] = "the user's pipeline"
        return item


class Here(Spider):
    """See the module. `home` is the site, `facts` the file."""

    name = "here"
    custom_settings = {
        "DOWNLOADER_MIDDLEWARES": {"tests.here.here_spider.OwnDownloaderMiddleware": 543},
        "SPIDER_MIDDLEWARES": {"tests.here.here_spider.OwnSpiderMiddleware": 543},
        "ITEM_PIPELINES": {
            "tests.here.here_spider.OwnPipeline": 500,
            "scrapy.pipelines.files.FilesPipeline": 510,
        },
    }
    handle_httpstatus_list = [404]
    allowed_domains = ["127.0.1.1", "127.0.0.1"]

    def __init__(self, home: str, facts: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.home = home
        self.path = Path(facts)
        self.facts: dict[str, Any] = {"arguments": kwargs, "order": []}
        self.signals: Counter[str] = Counter()
        self.idled = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        for name, signal in vars(signals).items():
            if not name.startswith("_"):
                crawler.signals.connect(spider.counting(name), signal, weak=False)
        crawler.signals.connect(spider.on_idle, signals.spider_idle)
        return spider

    def counting(self, name: str) -> Any:
        def count(**kwargs: Any) -> None:
            self.signals[name] += 1

        return count

    def on_idle(self) -> None:
        self.idled += 1

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.home + "/", cb_kwargs={"place": "start"}, meta={"mine": [1, {"two": (3,)}]})
        yield {"kind": "item from start"}

    def parse(self, response: Response, place: str = "") -> Iterator[Any]:
        self.facts["first"] = {"place": place, **self.facts_of(response)}
        yield from self.requests(response)
        yield from self.items(response)

    def facts_of(self, response: Response) -> dict[str, Any]:
        assert response.request is not None
        return {
            "mine": repr(response.meta["mine"]),
            "depth": response.meta["depth"],
            "latency": response.meta.get("download_latency"),
            "slot": response.meta.get("download_slot"),
            "status": response.status,
            "flags": response.flags,
            "ip_address": str(response.ip_address),
            "protocol": response.protocol,
            "certificate": response.certificate,
            "css": response.css("title::text").get(),
            "xpath": response.xpath("//title/text()").get(),
            "re": response.css("title").re_first("h.me"),
            "encoding": response.encoding,  # type: ignore[attr-defined]
            "class": type(response).__name__,
            "joined": response.urljoin("x"),
            "request_url": response.request.url,
        }

    def requests(self, response: Response) -> Iterator[Request]:
        yield from self.ordinary_requests(response)
        yield from self.unusual_requests()

    def ordinary_requests(self, response: Response) -> Iterator[Request]:
        home = self.home
        yield response.follow("/followed", self.note)
        yield from response.follow_all(css="a.all", callback=self.note)
        yield Request(home + "/again", self.note)
        yield Request(home + "/again", self.note)
        yield Request(home + "/twice", self.note)
        yield Request(home + "/twice", self.note, dont_filter=True)
        yield Request(home + "/headers", self.echo, headers={"X-Mine": "yes"}, flags=["flagged"])
        yield Request(home + "/put", self.echo, method="PUT", body="the body")
        yield FormRequest(home + "/form", callback=self.echo, formdata={"q": "a b"})
        yield JsonRequest(home + "/json", callback=self.echo, data={"a": 1})
        yield Request.from_curl(f"curl {home}/curl -H 'X-Curl: 1'", callback=self.echo)
        yield Request(home + "/packed", self.packed)
        yield Request(home + "/async", self.coroutine)
        yield Request(home + "/data.json", self.json)
        yield Request(home + "/page.xml", self.xml)

    def unusual_requests(self) -> Iterator[Request]:
        """Requests for errors, redirects, limits and pages that are not fetched."""
        home = self.home
        yield Request(home + "/missing", self.note)
        yield Request(home + "/gone", self.note, errback=self.failed)
        yield Request(home + "/gone?handled", self.note, meta={"handle_httpstatus_all": True})
        yield Request(home + "/moved", self.moved)
        yield Request(
            home + "/unmoved", self.moved, meta={"dont_redirect": True, "handle_httpstatus_list": [302]}
        )
        yield Request(home + "/flaky", self.note, errback=self.failed)
        yield Request(home + "/ignored", self.note, errback=self.failed)
        yield Request(home + "/private", self.note, errback=self.failed)
        yield Request(home + "/private?asked", self.note, meta={"dont_obey_robotstxt": True})
        yield Request("http://127.0.1.9/", self.note, errback=self.failed)
        yield Request("gopher://127.0.1.1/", self.note, errback=self.failed)
        yield Request(home + "/broken", self.broken)
        yield Request(home + "/error", self.raising)
        yield Request(
            home + "/slow", self.note, errback=self.failed, meta={"download_timeout": 0.3, "dont_retry": True}
        )
        yield Request(home + "/large", self.note, errback=self.failed, meta={"download_maxsize": 100})

    def items(self, response: Response) -> Iterator[Any]:
        yield page_of(response)
        loader = ItemLoader(Product(), response=response)
        loader.add_css("name", "title::text")
        loader.add_value("price", "3")
        yield loader.load_item()
        yield Shop("Rome")
        yield {"kind": "dict"}
        yield {"kind": "dropped"}
        yield {"kind": "with a file", "file_urls": [self.home + "/file.bin"]}

    def note(self, response: Response) -> None:
        self.facts["order"].append(response.url.removeprefix(self.home))
        self.facts.setdefault("statuses", {})[response.url.removeprefix(self.home)] = response.status

    def echo(self, response: Response) -> None:
        """The server sends back what it got."""
        request = response.request
        assert request is not None
        self.facts[f"sent {response.url.rpartition('/')[2]}"] = {
            "echo": json.loads(response.body),
            "flags": request.flags,
        }

    def broken(self, response: Response) -> Iterator[Any]:
        yield {"kind": "broken"}

    def packed(self, response: Response) -> None:
        self.facts["packed"] = {"text": response.text, "coding": response.headers.get("Content-Encoding")}

    def moved(self, response: Response) -> None:
        self.facts[f"moved {response.status}"] = {
            "url": response.url.removeprefix(self.home),
            "urls": [url.removeprefix(self.home) for url in response.meta.get("redirect_urls", [])],
            "times": response.meta.get("redirect_times"),
        }

    def json(self, response: Response) -> None:
        self.facts["json"] = {"value": response.json(), "class": type(response).__name__}  # type: ignore[attr-defined]

    def xml(self, response: Response) -> None:
        self.facts["xml"] = {"value": response.xpath("//b/text()").get(), "class": type(response).__name__}

    def raising(self, response: Response) -> None:
        raise RuntimeError("a defect of the user's callback")

    async def coroutine(self, response: Response) -> AsyncIterator[Any]:
        assert self.crawler.engine is not None
        inline = await self.crawler.engine.download_async(Request(self.home + "/inline"))
        self.facts["inline"] = inline.status
        yield {"kind": "from a coroutine"}

    def failed(self, failure: Failure) -> None:
        request = failure.request  # type: ignore[attr-defined]
        self.facts.setdefault("failures", {})[request.url.removeprefix(self.home)] = type(
            failure.value
        ).__name__

    def closed(self, reason: str) -> None:
        self.facts["reason"] = reason
        self.facts["signals"] = dict(self.signals)
        self.facts["idled"] = self.idled
        self.facts["settings"] = {
            "bot": self.settings["BOT_NAME"],
            "retry": self.settings.getint("RETRY_TIMES"),
        }
        stats = self.crawler.stats
        assert stats is not None
        self.facts["stats"] = {
            key: value for key, value in stats.get_stats().items() if isinstance(value, (int, float, str))
        }
        self.path.write_text(json.dumps(self.facts, indent=1, default=repr))
