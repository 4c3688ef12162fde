"""Requests of a spider mean what they mean in Scrapy, also after a restart: retries, special meta keys, items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from tests.crawl.conftest import Project
from tests.crawls import CrawlResult, items_of
from tests.web import Hit, LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE, OTHER = "127.0.1.1", "127.0.1.2"

RETRIER = """
from scrapy import Request, Spider
from scrapy.downloadermiddlewares.retry import get_retry_request


class Retrier(Spider):
    name = "retrier"
    handle_httpstatus_list = [503]

    async def start(self):
        for path, options in {
            "/empty": {},
            "/low": {"cb_kwargs": {"priority_adjust": -5}},
            "/most": {"meta": {"max_retry_times": 4}},
            "/argument": {"cb_kwargs": {"max_retry_times": 1}},
            "/never": {"meta": {"max_retry_times": 0}},
            "/unwell-then-empty": {},
            "/unwell": {"meta": {"dont_retry": True}},
            "/unwell-once": {"meta": {"max_retry_times": 1, "give_up_log_level": "INFO", "bindaddress": "::1"}},
            "/unwell-wrong": {"meta": {"max_retry_times": "2", "bindaddress": "127.0.0.1"}},
        }.items():
            yield Request(self.home + path, **options)

    def parse(self, response, **options):
        again = response.status == 200 and get_retry_request(
            response.request, spider=self, reason="empty", **options
        )
        if again:
            yield again
        else:
            yield {"path": response.url.removeprefix(self.home), "retries": response.meta.get("retry_times", 0)}
"""
ASKED = {
    "/empty": 3,
    "/low": 3,
    "/most": 5,
    "/argument": 2,
    "/never": 1,
    "/unwell-then-empty": 3,
    "/unwell": 1,
    "/unwell-once": 2,
    "/unwell-wrong": 3,
}


def test_a_callback_retries_as_often_as_in_scrapy(
    local_web: StartWeb, run_spider: RunCrawl, tmp_path: Path
) -> None:
    """RETRY_TIMES + 1 requests in all, over several processes, and with the retries of the frontier in between."""
    web = local_web(SITE)

    def answer(hit: Hit) -> Reply:
        first = web.paths(SITE).count(hit.path) == 1
        unwell = hit.path.startswith("/unwell") and (first or "empty" not in hit.path)
        return Reply("", status=503 if unwell else 200)

    for path in ASKED:
        web.put(SITE, path, answer)
    options = {
        "FRONTIER_MAX_ATTEMPTS": 3,
        "FRONTIER_RETRY_DELAY": 0.05,
        "POLITENESS_BACKOFF": 0.05,
        "LOG_LEVEL": "INFO",
    }
    log = ""
    for most in (7, 0):  # the second run is another worker
        result = run_spider(RETRIER, web.host(SITE), CRAWL_MAX_PAGES=most, **options)
        log += result.stderr
    asked = Counter(web.paths(SITE))
    del asked["/robots.txt"]
    assert asked == ASKED
    assert {item["path"]: item["retries"] + 1 for item in items_of(tmp_path / "items.jsonl")} == ASKED
    assert "Gave up retrying" in log
    assert log.count('meta["bindaddress"]') == 2, "once in each process"
    assert "meta[\"max_retry_times\"] is '2', not an integer" in log


SHOP = """
from dataclasses import dataclass, field

import attrs
import scrapy
from scrapy import Request, Spider


class Offer(scrapy.Item):
    price = scrapy.Field()


@attrs.define
class Seller:
    name: str


@dataclass
class Product:
    name: str
    offers: list = field(default_factory=list)

    def __post_init__(self):
        self.label = self.name.upper()


class Odd:
    pass


class Shop(Spider):
    name = "shop"

    async def start(self):
        yield Request(self.home + "/first")

    def parse(self, response):
        product = Product("tea", [{"best": Offer(price=3)}, Seller("me")])
        meta = {"o": Offer(price=4)}
        yield Request(self.home + "/item", callback=self.item, cb_kwargs={"product": product}, meta=meta)
        for number in range(3):
            yield Request(f"{self.home}/odd{number}", callback=self.item, cb_kwargs={"product": {number: [Odd()]}})
        for number in range(2):
            yield Request(f"{self.home}/lambda{number}", callback=lambda response: None)

    def item(self, response, product):
        yield {"product": repr(product), "label": product.label, "offer": repr(response.meta["o"])}
"""


def test_items_survive_a_restart_and_other_objects_are_named(
    local_web: StartWeb, run_spider: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    for path in ("/first", "/item", "/odd0", "/odd1", "/odd2", "/lambda0", "/lambda1"):
        web.put(SITE, path, path)
    first = run_spider(SHOP, web.host(SITE), CRAWL_MAX_PAGES=1)
    told = [line.partition("WARNING: ")[2] for line in first.stderr.splitlines() if "in this process" in line]
    assert told == [
        "Requests for item stay in this process and are lost if it ends: "
        "cb_kwargs['product'][][] is a spiders.shop.Odd: "
        "pass plain data, a scrapy.Item, a dataclass, or an attrs or pydantic class",
        "Requests for <lambda> stay in this process and are lost if it ends: "
        "callback is Shop.parse.<locals>.<lambda>: use a method of the spider",
    ]
    assert "requests that cannot be stored (3 for item, 2 for <lambda>)" in first.stderr
    second = run_spider(SHOP, web.host(SITE))
    assert web.paths(SITE) == ["/robots.txt", "/first", "/item"]
    assert items_of(tmp_path / "items.jsonl") == [
        {
            "product": "Product(name='tea', offers=[{'best': {'price': 3}}, Seller(name='me')])",
            "label": "TEA",
            "offer": "{'price': 4}",
        }
    ]
    assert second.summary["dead_letters"] == 5
    assert (
        "(item) was held by a worker that ended: cb_kwargs['product'][][] is a spiders.shop.Odd"
        in second.stderr
    )
    assert "cannot be stored (" not in second.stderr


WANDERER = """
from scrapy import Request, Spider


class Wanderer(Spider):
    name = "wanderer"
    allowed_domains = ["127.0.1.1"]

    async def start(self):
        yield Request(self.home + "/start#!/top")

    def parse(self, response):
        yield self.seen(response)
        for home in (self.home, self.other):
            for number in range(3):
                meta = {"allow_offsite": True, "download_slot": "both"}
                yield Request(f"{home}/{number}#part", callback=self.seen, meta=meta)
        yield Request(self.home + "/0#other", callback=self.seen)
        yield Request(self.other + "/offsite", callback=self.seen)
        yield Request(self.home + "/stays", callback=self.seen)
        yield Request(self.home + "/leaves", callback=self.seen, meta={"allow_offsite": True})
        yield Request(self.home + "/%7e?b='1'&a#x", callback=self.seen, meta={"verbatim_url": True})

    def seen(self, response):
        url = response.url.removeprefix(self.home).removeprefix(self.other)
        asked, start = response.request.url == response.url, response.meta.get("is_start_request")
        return {"url": url, "asked": asked, "start": start}
"""


def test_slots_fragments_and_offsite_requests_are_as_in_scrapy(
    local_web: StartWeb, run_spider: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE, OTHER)
    for site in (SITE, OTHER):
        for path in ("/start", "/offsite", "/%7e?b='1'&a"):
            web.put(site, path, "text")
        for number in range(3):
            web.put(site, f"/{number}", Reply("text", delay=0.15))
    for site, path, target in (
        (SITE, "/stays", web.url(OTHER, "/offsite")),
        (SITE, "/leaves", web.url(OTHER, "/hop")),
        (OTHER, "/hop", "/arrived"),
    ):
        web.put(site, path, Reply(status=302, headers={"Location": target}))
    web.put(OTHER, "/arrived", "text")
    result = run_spider(
        WANDERER,
        web.host(SITE),
        arguments={"other": web.host(OTHER)},
        CONCURRENT_REQUESTS_PER_DOMAIN=3,
        DOWNLOAD_SLOTS='{"both": {"concurrency": 1}}',
        ROBOTSTXT_OBEY=False,
        ALLOWED_NETWORKS="127.0.0.0/8",
    )
    found = items_of(tmp_path / "items.jsonl")
    assert sorted(item["url"] for item in found) == sorted(
        ["/start#!/top", "/%7e?b='1'&a#x", "/arrived", *2 * ["/0#part", "/1#part", "/2#part"]]
    )
    assert all(item["asked"] for item in found)
    assert [item["url"] for item in found if item["start"]] == ["/start#!/top"]
    assert "/offsite" not in web.paths(OTHER)
    assert web.paths(SITE).count("/stays") == 1
    assert web.paths(SITE).count("/0") == 1
    slow = sorted((hit for hit in web.log() if hit.path.strip("/").isdigit()), key=lambda hit: hit.started)
    assert len(slow) == 6
    assert all(after.started >= before.finished for before, after in pairwise(slow)), "one slot for two hosts"
    assert all("#" not in row["url"] for row in result.rows())


ROAMER = """
from scrapy import Request
from webcrawl.spiders.base import BroadSpider


class Roamer(BroadSpider):
    name = "roamer"

    def parse(self, response):
        yield from super().parse(response)
        for path in ("/stays", "/leaves"):
            meta = {"allow_offsite": True} if path == "/leaves" else {}
            yield Request(response.urljoin(path), callback=self.arrived, meta=meta)

    def arrived(self, response):
        print("arrived", response.url)
"""


def test_a_redirect_leaves_the_scope_of_a_broad_spider_only_with_allow_offsite(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    project.add_spider("roamer", ROAMER)
    web = local_web(SITE, OTHER)
    web.put(SITE, "/", "<title>Home</title>")
    for site, path, target in (
        (SITE, "/stays", web.url(OTHER, "/offsite")),
        (SITE, "/leaves", web.url(OTHER, "/hop")),
        (OTHER, "/hop", "/arrived"),
    ):
        web.put(site, path, Reply(status=302, headers={"Location": target}))
    web.put(OTHER, "/arrived", "text")
    result = run_crawl(
        "roamer",
        [web.url(SITE)],
        project=project.folder,
        ALLOWED_NETWORKS="127.0.0.0/8",
        timeout=60,
    )
    assert f"arrived {web.url(OTHER, '/arrived')}" in result.stdout
    assert "/offsite" not in web.paths(OTHER) and "/hop" in web.paths(OTHER)
