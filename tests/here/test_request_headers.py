"""Each request has the headers that it has in Scrapy without webcrawl;
docs/reference/scrapy-here.md names these tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crawls import Crawl
from tests.web import Hit, LocalWeb, Reply

SITE = "127.0.1.1"

SPIDER = """
from scrapy import FormRequest, Request, Spider


class Headers(Spider):
    name = "headers"
    custom_settings = {
        "ROBOTSTXT_OBEY": True,
        "USER_AGENT": "Example/1.0",
        "DOWNLOAD_DELAY": 0,
        "DEFAULT_REQUEST_HEADERS": {"Accept": "text/html", "Accept-Language": "fr", "X-Ours": "yes"},
        "REFERRER_POLICY": "scrapy-default",
    }

    def __init__(self, home, **kwargs):
        super().__init__(**kwargs)
        self.home = home
        self.start_urls = [home + "/start"]

    def parse(self, response):
        mine = {"Referer": "http://elsewhere.example/page", "X-Mine": "1"}
        yield response.follow("/link", self.seen)
        yield response.follow("/moved?link", self.seen)
        yield response.follow("/moved?mine", self.seen, headers=mine)
        yield response.follow("/moved?twice", self.seen, headers=mine)
        yield response.follow("/moved?policy", self.seen, meta={"referrer_policy": "no-referrer"})
        yield response.follow("/retried?link", self.seen)
        yield response.follow("/retried?mine", self.seen, headers=mine)
        yield response.follow("/cookies/set", self.cookie)
        yield FormRequest(self.home + "/moved?form", self.seen, formdata={"a": "b"}, headers=mine)
        yield Request(self.home + "/put", self.seen, method="PUT", body="x", headers={"Content-Type": "text/x"})
        yield Request(self.home + "/agent", self.seen, headers={"User-Agent": "Mine/2", "Accept": "image/*"})
        yield Request(self.home + "/login", self.seen, headers={"Authorization": "Basic eDp5"})

    def cookie(self, response):
        yield response.follow("/cookies/moved", self.seen, cookies={"own": "1"})

    def seen(self, response):
        yield {"url": response.url}
"""


def serve(web: LocalWeb) -> None:
    failed = set[str]()

    def retried(hit: Hit) -> Reply:
        first = hit.path not in failed
        failed.add(hit.path)
        return Reply(status=503 if first else 200)

    def moved(hit: Hit) -> Reply:
        query = hit.path.partition("?")[2]
        more = "/moved?again" if query == "twice" else f"/target?{query}"
        return Reply(status=302, headers={"Location": more})

    web.put(SITE, "/robots.txt", "User-agent: *\nDisallow: /no")
    web.put(SITE, "/moved", moved)
    web.put(SITE, "/retried", retried)
    web.put(SITE, "/cookies/set", Reply("set", headers={"Set-Cookie": "theirs=2; Path=/cookies"}))
    web.put(SITE, "/cookies/moved", Reply(status=302, headers={"Location": "/cookies/target"}))
    web.put(SITE, "*", "page")


Requests = dict[tuple[str, str, int], dict[str, str]]
"""Method, path and number of each request -> its headers."""


def requests(hits: list[Hit]) -> Requests:
    sent: Requests = {}
    for hit in hits:
        number = sum(key[:2] == (hit.method, hit.path) for key in sent)
        sent[hit.method, hit.path, number] = {name.title(): value for name, value in hit.headers.items()}
    return sent


@pytest.fixture(scope="module")
def stock_and_ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Requests, Requests]]:
    """The requests of the spider without webcrawl, and with it."""
    folder: Path = tmp_path_factory.mktemp("headers")
    spider = folder / "headers.py"
    spider.write_text(SPIDER)
    with LocalWeb(SITE) as web:
        serve(web)
        words = [sys.executable, "-m", "scrapy", "runspider", str(spider), "-a", f"home={web.url(SITE)}"]
        environment = {name: value for name, value in os.environ.items() if name != "SCRAPY_SETTINGS_MODULE"}
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stderr
        stock = web.log(SITE)
        serve(web)
        Crawl.start(
            str(spider),
            folder=folder,
            data_dir=folder / "data",
            command=("runspider",),
            arguments={"home": web.url(SITE)},
            tuned={"retry_delay": 0.1},
            POLITENESS_BACKOFF=0.1,
        ).wait()
        yield requests(stock), requests(web.log(SITE)[len(stock) :])


def test_the_same_requests_are_sent(stock_and_ours: tuple[Requests, Requests]) -> None:
    stock, ours = stock_and_ours
    # robots.txt is asked once by each
    assert stock.keys() == ours.keys() and len(stock) > 20


@pytest.mark.parametrize(
    "name", ["Referer", "User-Agent", "Accept", "Accept-Language", "X-Mine", "X-Ours", "Cookie"]
)
def test_a_header_is_as_in_scrapy(name: str, stock_and_ours: tuple[Requests, Requests]) -> None:
    stock, ours = ({key: sent.get(name) for key, sent in sent.items()} for sent in stock_and_ours)
    assert ours == stock


def test_all_other_headers_are_as_in_scrapy(stock_and_ours: tuple[Requests, Requests]) -> None:
    differences = {
        (key[1], name, sent.get(name), ours.get(name))
        for key, sent, ours in (
            (key, sent, stock_and_ours[1].get(key, {})) for key, sent in stock_and_ours[0].items()
        )
        for name in sent.keys() | ours.keys()
        if sent.get(name) != ours.get(name)
    }
    # ours names the codings that every reader of WARC decodes
    assert {name for _, name, _, _ in differences} == {"Accept-Encoding"}, differences
