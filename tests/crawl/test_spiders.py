"""Spiders that people add: dropped into spiders/, with all that a Scrapy request may carry."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from tests.crawl.conftest import Project
from tests.crawls import Crawl, CrawlResult, until
from tests.web import LocalWeb, Reply

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


def items_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_all_that_a_request_carries_survives_the_process(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    project.add_spider("carrier", CARRIER)
    web = local_web(SITE)
    for path in ("/first", "/post", "/json", "/again", "/once", "/low", "/high"):
        web.put(SITE, path, path)
    items = tmp_path / "items.jsonl"
    options: dict[str, Any] = {
        "project": project.folder,
        "command": ("crawl", "-o", str(items)),
        "arguments": {"home": web.host(SITE)},
        "DOWNLOAD_DELAY": 0,
        "timeout": 20,
    }
    first = run_crawl("carrier", CRAWL_MAX_PAGES=1, **options)
    assert first.returncode == 0, first.stderr
    assert web.paths(SITE) == ["/robots.txt", "/first"]
    second = run_crawl("carrier", **options)
    assert second.returncode == 0, second.stderr
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
    found = {item.get("path", "failed"): item for item in items_of(items)}
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
    assert len(items_of(items)) == 8


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


def test_requests_that_cannot_be_stored_are_crawled_and_logged(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    project.add_spider("nameless", LAMBDA)
    web = local_web(SITE)
    for path in ("/start", "/a", "/b"):
        web.put(SITE, path, path)
    items = tmp_path / "items.jsonl"
    result = run_crawl(
        "nameless",
        project=project.folder,
        command=("crawl", "-o", str(items)),
        arguments={"home": web.host(SITE)},
        DOWNLOAD_DELAY=0.2,
        timeout=20,
    )
    assert result.returncode == 0, result.stderr
    assert sorted(item["path"] for item in items_of(items)) == ["a", "b", "start"]
    assert [item["depth"] for item in items_of(items) if "depth" in item] == [1, 1]
    assert result.stderr.count("stays in this process") == 3
    assert web.min_gap(SITE) >= 0.2
    assert (result.summary["queued"], result.summary["dead_letters"]) == (0, 0)


TITLES = """
from spiders.base import BroadSpider


class Titles(BroadSpider):
    name = "titles"

    def parse(self, response):
        yield self.page(response)
        yield self.links(response)
        yield {"title": response.css("title::text").get(), "url": response.url}
"""


def test_a_broad_spider_of_a_few_lines(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    project.add_spider("titles", TITLES)
    web = local_web(SITE)
    web.put(SITE, "/", "<title>home</title><a href=/next>next</a>")
    web.put(SITE, "/next", "<title>next</title><a href=/>home</a>")
    items = tmp_path / "items.jsonl"
    result = run_crawl(
        "titles",
        [web.url(SITE)],
        project=project.folder,
        command=("crawl", "-o", str(items)),
        arguments={"scope": "host"},
        DOWNLOAD_DELAY=0,
        timeout=20,
    )
    assert result.returncode == 0, result.stderr
    lines = items_of(items)
    assert {line["title"]: line["url"] for line in lines if "digest" not in line} == {
        "home": web.url(SITE),
        "next": web.url(SITE, "/next"),
    }
    assert {row["title"] for row in result.rows()} == {"home", "next"}


STOCK = """
import scrapy


class Stock(scrapy.Spider):
    name = "stock"

    def __init__(self, home, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [home + "/", home + "/two"]

    def parse(self, response):
        yield {"url": response.url, "depth": response.meta["depth"]}
        yield from response.follow_all(css="a")
"""


def test_a_stock_scrapy_spider(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    project.add_spider("stock", STOCK)
    web = local_web(SITE)
    web.put(SITE, "/", "<a href=/two>2</a><a href=/three#x>3</a><a href=three>3</a>")
    web.put(SITE, "/two", "<a href=/>1</a><a href=/private>p</a>")
    web.put(SITE, "/three", Reply(status=302, headers={"Location": "/four"}))
    web.put(SITE, "/four", "four")
    web.put(SITE, "/robots.txt", "User-agent: *\nDisallow: /private\n")
    items = tmp_path / "items.jsonl"
    result = run_crawl(
        "stock",
        project=project.folder,
        command=("crawl", "-o", str(items)),
        arguments={"home": web.host(SITE)},
        DOWNLOAD_DELAY=0,
        timeout=20,
    )
    assert result.returncode == 0, result.stderr
    asked = web.paths(SITE)
    assert set(asked) == {"/", "/four", "/robots.txt", "/three", "/two"}
    # Scrapy does not filter start_urls, and does not remember them for its filter either
    assert (asked.count("/three"), asked.count("/four")) == (1, 1)
    assert max(asked.count("/"), asked.count("/two")) <= 2
    paths = {item["url"].removeprefix(web.host(SITE)).partition("#")[0] for item in items_of(items)}
    assert paths == {"/", "/two", "/four"}
    assert {item["depth"] for item in items_of(items)} == {0, 1}
    assert result.summary["finish_reason"] == "finished"
    assert result.summary["robots_denied"] == 1


RAISING = """
from spiders.base import BroadSpider


class Raising(BroadSpider):
    name = "raising"

    def parse(self, response):
        if response.url.endswith("/bad"):
            raise RuntimeError("this callback is broken")
        yield self.page(response)
        yield self.links(response)
"""


def test_a_callback_that_raises_does_not_lose_its_page_silently(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    project.add_spider("raising", RAISING)
    web = local_web(SITE)
    web.put(SITE, "/", "<a href=/bad>bad</a><a href=/good>good</a>")
    web.put(SITE, "/bad", "bad")
    web.put(SITE, "/good", "good")
    result = run_crawl(
        "raising",
        [web.url(SITE)],
        project=project.folder,
        arguments={"scope": "host"},
        DOWNLOAD_DELAY=0,
        FRONTIER_RETRY_DELAY=0.1,
        FRONTIER_MAX_ATTEMPTS=2,
        timeout=20,
    )
    assert result.returncode == 0, result.stderr
    assert "this callback is broken" in result.stderr
    rows = {row["url"]: row for row in result.rows()}
    assert rows[web.url(SITE, "/good")]["status"] == 200
    bad = rows.get(web.url(SITE, "/bad"))
    told = bad is not None and "this callback is broken" in (bad["error"] or "")
    assert told or result.summary["dead_letters"] == 1


FED = """
from scrapy_redis.spiders import RedisSpider


class Fed(RedisSpider):
    name = "fed"

    def parse(self, response):
        yield {"url": response.url, "told": response.meta.get("told")}
"""


def test_a_redis_spider_is_fed_through_its_list(
    project: Project,
    local_web: StartWeb,
    run_crawl: RunCrawl,
    valkey: redis.Redis,
    redis_url: str,
    tmp_path: Path,
) -> None:
    project.add_spider("fed", FED)
    web = local_web(SITE)
    valkey.lpush("fed:start_urls", web.put(SITE, "/a", "a"))
    valkey.lpush("fed:start_urls", json.dumps({"url": web.put(SITE, "/b", "b"), "meta": {"told": "so"}}))
    items = tmp_path / "items.jsonl"
    result = run_crawl(
        "fed",
        project=project.folder,
        command=("crawl", "-o", str(items)),
        REDIS_URL=redis_url,
        CLOSESPIDER_ITEMCOUNT=2,
        ALLOWED_NETWORKS="127.0.1.0/24",
        DOWNLOAD_DELAY=0,
        timeout=20,
    )
    assert result.returncode == 0, result.stderr
    told = {item["url"].removeprefix(web.host(SITE)): item["told"] for item in items_of(items)}
    assert told == {"/a": None, "/b": "so"}
    assert valkey.llen("fed:start_urls") == 0


HANGING = """
import time
from pathlib import Path
from scrapy_redis.spiders import RedisSpider


class Hanging(RedisSpider):
    name = "hanging"

    def make_request_from_data(self, data):
        while Path("hang").exists():
            time.sleep(0.05)
        return super().make_request_from_data(data)

    def parse(self, response):
        yield {"url": response.url}
"""


def test_start_urls_that_a_killed_worker_had_read_are_crawled_by_the_next(
    project: Project, local_web: StartWeb, start_crawl: Any, valkey: redis.Redis, redis_url: str
) -> None:
    project.add_spider("hanging", HANGING)
    hang = project.folder / "hang"
    hang.touch()
    web = local_web(SITE)
    urls = [web.put(SITE, f"/{number}", str(number)) for number in range(5)]
    key = "hanging:start_urls"
    valkey.rpush(key, *urls)

    def start() -> Crawl:
        crawl: Crawl = start_crawl(
            "hanging",
            project=project.folder,
            REDIS_URL=redis_url,
            ALLOWED_NETWORKS="127.0.1.0/24",
            FRONTIER_LEASE_SECONDS=1.5,
            DOWNLOAD_DELAY=0,
        )
        return crawl

    killed = start()
    until(lambda: not valkey.exists(key), killed)
    killed.kill()
    hang.unlink()
    crawl = start()
    until(lambda: {*web.urls()} == {*urls} and not valkey.keys("*claimed*"), crawl)
    crawl.interrupt()
    assert crawl.wait(20).returncode == 0
    assert "5 start URLs of workers that died" in crawl.stderr
    assert (valkey.exists(key), valkey.keys("*claimed*")) == (0, [])


AGAIN = """
from scrapy import Spider


class Again(Spider):
    name = "again"

    def __init__(self, home, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [home + "/news", home + "/slow"]

    def parse(self, response):
        if response.url.endswith("/news") and not response.meta.get("seen"):
            response.meta["recrawl_after"] = 0.5
        yield {"url": response.url}
"""


def test_a_spider_can_ask_for_a_page_again(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    """It comes back at its date while there is other work, each time once."""
    project.add_spider("again", AGAIN)
    web = local_web(SITE)
    web.put(SITE, "/news", "news")
    web.put(SITE, "/slow", Reply("slow", delay=3))
    result = run_crawl(
        "again",
        project=project.folder,
        arguments={"home": web.host(SITE)},
        DOWNLOAD_DELAY=0,
        CONCURRENT_REQUESTS_PER_DOMAIN=2,
        timeout=30,
    )
    assert result.returncode == 0, result.stderr
    assert web.paths(SITE).count("/slow") == 1
    assert web.paths(SITE).count("/news") >= 2
    assert "recrawl_after" not in result.stderr


def test_a_hosts_budget_ends_the_crawl_and_scrapy_host_lets_it_go_on(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "".join(f"<a href=/{n}>{n}</a>" for n in range(9)))
    for n in range(9):
        web.put(SITE, f"/{n}", f"{n}")
    options: dict[str, Any] = {"arguments": {"scope": "host"}, "DOWNLOAD_DELAY": 0, "timeout": 20}
    first = run_crawl("broad", [web.url(SITE)], HOST_MAX_PAGES=4, **options)
    assert (first.returncode, first.summary["finish_reason"]) == (0, "finished")
    assert (first.summary["pages"], first.summary["parked"]) == (4, 6)
    assert "see scrapy host" in first.stderr
    told = run_crawl(web.host(SITE), command=("host", "--max-pages", "6"), data_dir=first.data_dir)
    assert json.loads(told.stdout)["limits"]["pages"] == 6, told.stderr
    second = run_crawl("broad", [web.url(SITE)], HOST_MAX_PAGES=4, data_dir=first.data_dir, **options)
    assert second.summary["pages"] == 6
