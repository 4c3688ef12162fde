"""The kinds of spiders that Scrapy has, and the ways to stop; docs/reference/scrapy-here.md names these tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crawls import Crawl, CrawlResult
from tests.web import LocalWeb, Reply

SITE = "127.0.1.1"

Results = dict[str, tuple[CrawlResult, list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    """Spider -> the result of its crawl, and its items. All crawl at once."""
    with LocalWeb(SITE) as web:
        web.put(SITE, "/", "<a href=/list>list</a><a href=/other>other</a>")
        web.put(SITE, "/list", "<a href=/article1>first</a><a href=/article2>second</a>")
        web.put(SITE, "/article1", "one")
        web.put(SITE, "/article2", "two")
        web.put(SITE, "/robots.txt", f"User-agent: *\nDisallow:\nSitemap: {web.url(SITE, '/map.xml')}\n")
        locations = "".join(
            f"<url><loc>{web.url(SITE, path)}</loc></url>" for path in ("/article1", "/other")
        )
        sitemap = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{locations}</urlset>'
        web.put(SITE, "/map.xml", Reply(sitemap, headers={"Content-Type": "text/xml"}))
        web.put(SITE, "/page.xml", Reply("<a><b>x</b><b>y</b></a>", headers={"Content-Type": "text/xml"}))
        web.put(SITE, "/table.csv", Reply("a,b\n1,2\n", headers={"Content-Type": "text/csv"}))
        names = ("crawling", "maps", "xml", "csv", "stopping")
        folders = {name: tmp_path_factory.mktemp(name) for name in names}
        crawls = {name: start(name, folders[name], web) for name in names}
        ended = {name: crawl.wait() for name, crawl in crawls.items()}
        yield {name: (result, items(folders[name] / "items.jsonl")) for name, result in ended.items()}


def start(name: str, folder: Path, web: LocalWeb, **settings: object) -> Crawl:
    return Crawl.start(
        name,
        folder=folder,
        data_dir=folder / "data",
        command=("crawl", "-o", str(folder / "items.jsonl")),
        arguments={"home": web.host(SITE)},
        ALLOWED_NETWORKS="127.0.0.0/8",
        SPIDER_MODULES="tests.here.kinds",
        **settings,
    )


def items(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_crawl_spider_follows_its_rules(results: Results) -> None:
    result, got = results["crawling"]
    assert result.returncode == 0, result.stderr
    assert "cannot be stored" not in result.stderr
    assert sorted((item["kind"], item["text"], item["link"]) for item in got) == [
        ("article", "one", "first"),
        ("article", "two", "second"),
    ]


def test_a_sitemap_spider_reads_the_sitemaps_of_robots_txt(results: Results) -> None:
    assert results["maps"][1] == [{"text": "one"}], results["maps"][0].stderr


def test_feed_spiders_read_nodes_and_rows(results: Results) -> None:
    assert results["xml"][1] == [{"text": "x"}, {"text": "y"}], results["xml"][0].stderr
    assert results["csv"][1] == [{"a": "1", "b": "2"}], results["csv"][0].stderr


def test_a_spider_may_go_on_when_idle_and_stop_with_its_reason(results: Results) -> None:
    result, got = results["stopping"]
    assert got == [{"text": "one"}, {"text": "two"}], result.stderr
    assert result.summary["finish_reason"] == "enough"


def test_the_http_cache_answers_a_second_crawl(tmp_path: Path) -> None:
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": tmp_path / "cache"}
    with LocalWeb(SITE) as web:
        web.put(SITE, "/table.csv", Reply("a,b\n1,2\n", headers={"Content-Type": "text/csv"}))
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            result = start("csv", tmp_path / name, web, **cache).wait()
            assert items(tmp_path / name / "items.jsonl") == [{"a": "1", "b": "2"}], result.stderr
        assert web.paths(SITE).count("/table.csv") == 1
