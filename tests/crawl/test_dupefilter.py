"""The compact dupefilter in a scrapy-redis project that uses no other component of webcrawl."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy import Request, Spider
from scrapy.settings import Settings
from scrapy_redis.dupefilter import RFPDupeFilter

from tests.crawls import CHECKOUT, Crawl
from tests.web import LocalWeb, Reply
from webcrawl.dupefilter import CompactDupeFilter
from webcrawl.errors import ConfigurationError

SITE = "127.0.1.1"
PAGES = 12
KEY = "walk:dupefilter"
SPIDER = """
import scrapy

class Walk(scrapy.Spider):
    name = "walk"

    async def start(self):
        yield scrapy.Request(self.home)

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)
"""


@pytest.fixture
def stock(tmp_path: Path, redis_url: str) -> Path:
    """A project as in scrapy-redis's README, except for its dupefilter."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = stock_settings\n")
    (tmp_path / "stock_settings.py").write_text(
        textwrap.dedent(f"""
            SPIDER_MODULES = ["walks"]
            SCHEDULER = "scrapy_redis.scheduler.Scheduler"
            DUPEFILTER_CLASS = "webcrawl.dupefilter.CompactDupeFilter"
            SCHEDULER_PERSIST = True
            REDIS_URL = {redis_url!r}
            TELNETCONSOLE_ENABLED = False
        """)
    )
    (tmp_path / "walks.py").write_text(SPIDER)
    return tmp_path


@pytest.fixture
def start(stock: Path, start_crawl: Callable[..., Crawl]) -> Callable[..., Crawl]:
    """Starts the crawl of the stock project."""
    environment = {"PYTHONPATH": str(CHECKOUT)}
    return lambda home, **settings: start_crawl(
        "walk", project=stock, env=environment, arguments={"home": home}, **settings
    )


def finished(*crawls: Crawl) -> None:
    for crawl in crawls:
        result = crawl.wait()
        assert result.returncode == 0 and "Traceback" not in result.stderr, result.stderr


def test_two_processes_fetch_each_page_once_and_a_later_one_fetches_none(
    local_web: Callable[..., LocalWeb], start: Callable[..., Crawl], valkey: redis.Redis
) -> None:
    web = local_web(SITE)
    links = "".join(f"<a href=/{n}>x</a>" for n in range(PAGES))
    for path in ("/", *(f"/{n}" for n in range(PAGES))):
        web.put(SITE, path, Reply(links, delay=0.1))
    everything = sorted(["/", *(f"/{n}" for n in range(PAGES))])
    home = web.url(SITE)
    finished(start(home), start(home))
    assert sorted(web.paths(SITE)) == everything
    assert valkey.hget(KEY, "seen") == b"%d" % (PAGES + 1)
    finished(start(home))
    assert sorted(web.paths(SITE)) == everything, "known URLs were forgotten"
    finished(start(home, SCHEDULER_FLUSH_ON_START=True))
    assert sorted(web.paths(SITE)) == sorted(everything * 2)


def dupefilter(cls: type[RFPDupeFilter], redis_url: str, **settings: Any) -> RFPDupeFilter:
    spider = Spider("walk")
    spider.settings = Settings({"REDIS_URL": redis_url, **settings})
    return cls.from_spider(spider)


def requests(count: int) -> Iterator[Request]:
    return (Request(f"http://a.test/{n}") for n in range(count))


def test_the_filter_needs_a_fraction_of_the_stock_filters_memory(redis_url: str, valkey: redis.Redis) -> None:
    count, used = 3_000, {}
    for cls in (RFPDupeFilter, CompactDupeFilter):
        seen = dupefilter(cls, redis_url)
        assert not any(seen.request_seen(request) for request in requests(count))
        assert all(seen.request_seen(request) for request in requests(count))
        used[cls] = sum(valkey.memory_usage(key, samples=0) for key in valkey.scan_iter(f"{KEY}*")) / count
        seen.clear()
        assert not valkey.keys()
    assert used[CompactDupeFilter] < 12 and used[RFPDupeFilter] > 60, used


def test_requests_are_compared_by_canonical_url_method_and_body(redis_url: str) -> None:
    seen = dupefilter(CompactDupeFilter, redis_url)
    several = [Request("http://a.test/", method="POST", body=body) for body in (b"a", b"b")]
    assert [seen.request_seen(one) for one in (*several, *several)] == [False, False, True, True]
    assert seen.request_seen(Request("http://a.test/?b=2&a=1")) is False
    assert seen.request_seen(Request("http://a.test/?a=1&b=2")) is True


def test_requests_seen_after_a_partial_clear_are_remembered(redis_url: str, valkey: redis.Redis) -> None:
    """A closing worker clears the shared filter while others use it; the buckets are deleted last."""
    seen, other = (dupefilter(CompactDupeFilter, redis_url, SCHEDULER_DUPEFILTER_KEY="key") for _ in "ab")
    for request in requests(300):
        seen.request_seen(request)
    before = set(valkey.keys())
    valkey.delete("key")  # a clear that was interrupted halfway by a kill
    assert not any(other.request_seen(request) for request in requests(300))
    assert all(seen.request_seen(request) for request in requests(300))
    seen.clear()
    assert set(valkey.keys()) == before - {b"key"}, "only the orphaned buckets are left"


def test_a_key_of_the_stock_filter_is_refused_until_it_is_cleared(redis_url: str) -> None:
    dupefilter(RFPDupeFilter, redis_url).request_seen(Request("http://a.test/"))
    seen = dupefilter(CompactDupeFilter, redis_url)
    with pytest.raises(ConfigurationError, match="'walk:dupefilter' holds .* another DUPEFILTER_CLASS"):
        seen.request_seen(Request("http://a.test/"))
    seen.clear()
    assert seen.request_seen(Request("http://a.test/")) is False
