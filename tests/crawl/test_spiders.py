"""Spiders that users add to spiders/."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.crawl.conftest import Project
from tests.crawls import CrawlResult, items_of
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"

TITLES = """
from webcrawl.spiders.base import BroadSpider


class Titles(BroadSpider):
    name = "titles"

    def parse(self, response):
        yield self.page(response)
        yield self.links(response)
        yield {"title": response.css("title::text").get(), "url": response.url}
"""


def test_a_spider_derived_from_broad_yields_items(
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
        timeout=60,
    )
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


def test_a_stock_scrapy_spider_runs_unchanged(
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
        timeout=60,
    )
    asked = web.paths(SITE)
    assert set(asked) == {"/", "/four", "/robots.txt", "/three", "/two"}
    # Scrapy neither filters start_urls nor adds them to its dupefilter
    assert (asked.count("/three"), asked.count("/four")) == (1, 1)
    assert max(asked.count("/"), asked.count("/two")) <= 2
    paths = {item["url"].removeprefix(web.host(SITE)).partition("#")[0] for item in items_of(items)}
    assert paths == {"/", "/two", "/four"}
    assert {item["depth"] for item in items_of(items)} == {0, 1}
    assert result.summary["finish_reason"] == "finished"
    assert result.summary["robots_denied"] == 1


RAISING = """
from webcrawl.spiders.base import BroadSpider


class Raising(BroadSpider):
    name = "raising"

    def parse(self, response):
        if response.url.endswith("/bad"):
            raise RuntimeError("this callback is broken")
        yield self.page(response)
        yield self.links(response)
"""


def test_the_error_of_a_callback_is_recorded_for_its_page(
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
        FRONTIER_RETRY_DELAY=0.1,
        FRONTIER_MAX_ATTEMPTS=2,
        timeout=60,
    )
    assert "this callback is broken" in result.stderr
    rows = {row["url"]: row for row in result.rows()}
    assert rows[web.url(SITE, "/good")]["status"] == 200
    bad = rows.get(web.url(SITE, "/bad"))
    is_recorded = bad is not None and "this callback is broken" in (bad["error"] or "")
    assert is_recorded or result.summary["dead_letters"] == 1


RAISES_ON_RESPONSE = """
from webcrawl.spiders.base import BroadSpider


class Nervous:
    times = 0

    def process_response(self, request, response):
        if request.url.endswith("/bad"):
            raise RecursionError("this middleware is broken")
        if request.url.endswith("/once") and not Nervous.times:
            Nervous.times += 1
            raise RuntimeError("this middleware needed a moment")
        return response


class Broken(BroadSpider):
    name = "broken"

    @classmethod
    def update_settings(cls, settings):
        super().update_settings(settings)
        chain = {**settings.getdict("DOWNLOADER_MIDDLEWARES"), Nervous: 500}
        settings.set("DOWNLOADER_MIDDLEWARES", chain, priority="spider")
"""


def test_a_middleware_that_raises_on_a_response_fails_the_fetch(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    project.add_spider("broken", RAISES_ON_RESPONSE)
    web = local_web(SITE)
    web.put(SITE, "/", "<a href=/bad>bad</a><a href=/once>once</a>")
    web.put(SITE, "/bad", "bad")
    web.put(SITE, "/once", "once")
    result = run_crawl(
        "broken",
        [web.url(SITE)],
        project=project.folder,
        FRONTIER_RETRY_DELAY=0.1,
        FRONTIER_MAX_ATTEMPTS=2,
        timeout=60,
    )
    rows = {row["url"]: row for row in result.rows()}
    assert rows[web.url(SITE, "/once")]["error"] is None
    assert rows[web.url(SITE, "/bad")]["error"] == "RecursionError: this middleware is broken"
    summary = result.summary
    assert (summary["failed"], summary["dead_letters"], summary["retried"]) == (1, 1, 2)


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


def test_a_spider_can_schedule_a_recrawl(project: Project, local_web: StartWeb, run_crawl: RunCrawl) -> None:
    """The page is fetched again when it is due, once per schedule, while other work goes on."""
    project.add_spider("again", AGAIN)
    web = local_web(SITE)
    web.put(SITE, "/news", "news")
    web.put(SITE, "/slow", Reply("slow", delay=3))
    result = run_crawl(
        "again",
        project=project.folder,
        arguments={"home": web.host(SITE)},
        CONCURRENT_REQUESTS_PER_DOMAIN=2,
        timeout=60,
    )
    assert web.paths(SITE).count("/slow") == 1
    assert web.paths(SITE).count("/news") >= 2
    assert "recrawl_after" not in result.stderr
