"""The fields of a Scrapy request survive the frontier and a change of process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.crawls import CrawlResult, items_of
from tests.web import LocalWeb

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"

CARRIER = """
import datetime
from scrapy import Request, Spider
from scrapy.http import JsonRequest


class Carrier(Spider):
    name = "carrier"
    custom_settings = {"COOKIES_ENABLED": True}

    async def start(self):
        yield Request(self.home + "/first", callback=self.first)

    def first(self, response):
        yield Request(
            self.home + "/post",
            method="POST",
            body=b"\\x00\\xff body",
            headers={"X-Mark": ["one", "two"]},
            cookies={"session": "42"},
            meta={"tag": ["a", {"b": (1, 2)}], "when": datetime.date(2024, 2, 29), "none": None},
            cb_kwargs={"number": 7, "text": "gr\\u00fc\\u00dfe"},
            flags=["a flag"],
            callback=self.carried,
        )
        yield JsonRequest(self.home + "/json", data={"question": 6 * 7}, callback=self.carried, cb_kwargs={"number": 8})
        yield Request(self.home + "/missing", callback=self.carried, errback=self.failed)
        for _ in range(2):
            yield Request(self.home + "/again", callback=self.carried, dont_filter=True, cb_kwargs={"number": 9})
            yield Request(self.home + "/once", callback=self.carried, cb_kwargs={"number": 10})
        yield Request(self.home + "/low", priority=-2, callback=self.carried, cb_kwargs={"number": 1})
        yield Request(self.home + "/high", priority=2, callback=self.carried, cb_kwargs={"number": 2})

    def carried(self, response, number, text=""):
        request, meta = response.request, response.meta
        yield {
            "path": response.url.removeprefix(self.home),
            "number": number,
            "text": text,
            "tag": repr(meta.get("tag")),
            "when": repr(meta.get("when")),
            "flags": request.flags,
            "priority": request.priority,
            "kind": type(request).__name__,
        }

    def failed(self, failure):
        yield {"failed": failure.request.url.removeprefix(self.home), "why": type(failure.value).__name__}
"""


def test_all_fields_of_a_request_survive_the_process(
    local_web: StartWeb, run_spider: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    for path in ("/first", "/post", "/json", "/again", "/once", "/low", "/high"):
        web.put(SITE, path, path)
    run_spider(CARRIER, web.host(SITE), CRAWL_MAX_PAGES=1)
    assert web.paths(SITE) == ["/robots.txt", "/first"]
    run_spider(CARRIER, web.host(SITE))
    asked = web.paths(SITE)
    assert sorted(asked[2:]) == sorted(
        ["/post", "/json", "/missing", "/again", "/again", "/once", "/low", "/high"]
    )
    assert (asked[2], asked[-1]) == ("/high", "/low")
    post = next(hit for hit in web.log(SITE) if hit.path == "/post")
    assert (post.method, post.body) == ("POST", b"\x00\xff body")
    assert post.headers["Cookie"] == "session=42"
    assert [value for name, value in post.headers.items() if name == "X-Mark"] == ["one", "two"]
    asked_json = next(hit for hit in web.log(SITE) if hit.path == "/json")
    assert (asked_json.method, json.loads(asked_json.body)) == ("POST", {"question": 42})
    items = items_of(tmp_path / "items.jsonl")
    found = {item.get("path", "failed"): item for item in items}
    assert found["/post"] == {
        "path": "/post",
        "number": 7,
        "text": "grüße",
        "tag": "['a', {'b': (1, 2)}]",
        "when": "datetime.date(2024, 2, 29)",
        "flags": ["a flag"],
        "priority": 0,
        "kind": "Request",
    }
    assert found["/json"]["kind"] == "JsonRequest"
    assert (found["/high"]["priority"], found["/low"]["priority"]) == (2, -2)
    assert found["failed"] == {"failed": "/missing", "why": "HttpError"}
    assert len(items) == 8


LAMBDA = """
from scrapy import Request, Spider


class Nameless(Spider):
    name = "nameless"

    async def start(self):
        yield Request(self.home + "/start", callback=lambda response: self.more(response))

    def more(self, response):
        yield {"path": "start"}
        for name in ("a", "b"):
            yield Request(
                self.home + "/" + name,
                callback=lambda response, kept=name: [{"path": kept, "depth": response.meta["depth"]}],
                meta={"open": open(__file__)},
            )
"""


def test_requests_that_cannot_be_serialized_are_crawled_and_logged(
    local_web: StartWeb, run_spider: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    for path in ("/start", "/a", "/b"):
        web.put(SITE, path, path)
    result = run_spider(LAMBDA, web.host(SITE), DOWNLOAD_DELAY=0.2)
    items = items_of(tmp_path / "items.jsonl")
    assert sorted(item["path"] for item in items) == ["a", "b", "start"]
    assert [item["depth"] for item in items if "depth" in item] == [1, 1]
    assert result.stderr.count("stay in this process") == 2, "once for each function"
    assert web.min_gap(SITE) >= 0.2
    assert (result.summary["queued"], result.summary["dead_letters"]) == (0, 0)
