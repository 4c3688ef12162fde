"""What requests carry: items in the frontier, and cookies."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_benchmark.fixture import BenchmarkFixture
from scrapy import Request, Spider
from scrapy.http import Response

from benchmarks.micro.conftest import URL
from webcrawl.crawler.cookies import SiteCookies
from webcrawl.crawler.scheduling.requests import to_candidate, to_request
from webcrawl.frontier import LeasedURL, level_of_priority
from webcrawl.urls.canonical import Canonicalizer


@dataclass
class Product:
    """An item as spiders carry it from page to page."""

    name: str
    prices: list[float] = field(default_factory=list)
    parts: list[Product] = field(default_factory=list)


class Shop(Spider):
    name = "shop"

    def parse_prices(self, response: Response, product: Product) -> None:
        """A callback that requests name."""


PRODUCT = Product("tea", [1.5, 2.5], [Product(f"part {number}", [0.5]) for number in range(5)])


def test_storing_a_request(benchmark: BenchmarkFixture) -> None:
    """A request with a callback and an item of six dataclasses, as an entry of the frontier."""
    spider, canonicalizer = Shop(), Canonicalizer()
    request = Request(URL, spider.parse_prices, cb_kwargs={"product": PRODUCT}, priority=100)
    candidate = benchmark(lambda: to_candidate(request, spider, canonicalizer))
    assert candidate.extra is not None and b"Product" in candidate.extra


def test_restoring_a_request(benchmark: BenchmarkFixture) -> None:
    """The same request from its entry."""
    spider = Shop()
    request = Request(URL, spider.parse_prices, cb_kwargs={"product": PRODUCT}, priority=100)
    made = to_candidate(request, spider, Canonicalizer())
    leased = LeasedURL(
        0, made.host, made.path, level_of_priority(100), 0, 0, made.depth, made.referrer, made.extra, False
    )
    restored = benchmark(lambda: to_request(leased, spider))
    assert restored.cb_kwargs == {"product": PRODUCT} and restored.priority == 100


def test_cookies_of_a_page(benchmark: BenchmarkFixture) -> None:
    """Two cookies taken from a response into a jar of twenty, and the header of the next request."""
    jar = SiteCookies("session", "example.org")
    request = Request(URL)

    def take(lines: list[str]) -> None:
        response = Response(URL, headers={"Set-Cookie": lines})
        jar.accept(response, request)

    take([f"cookie{number}={number}; Path=/" for number in range(20)])

    def once() -> bytes | None:
        take(["cookie0=new; Path=/; HttpOnly", "cookie1=new; Path=/; Max-Age=999"])
        following = Request(URL)
        jar.cookies.add_cookie_header(following)
        return following.headers.get("Cookie")

    assert b"cookie0=new" in (benchmark(once) or b"")


def test_cookies_of_a_lease(benchmark: BenchmarkFixture) -> None:
    """A jar of twenty cookies to bytes and back, without the engine."""
    jar = SiteCookies("session", "example.org")
    lines = [f"cookie{number}={number}; Path=/" for number in range(20)]
    response, request = Response(URL, headers={"Set-Cookie": lines}), Request(URL)
    jar.accept(response, request)
    benchmark(lambda: jar.load(jar.dump()))
    assert len(list(jar.cookies)) == 20
