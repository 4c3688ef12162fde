"""Seeds, scope, limits and settings of a crawl, and the errors for wrong values."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crawls import CrawlResult
from tests.nameserver import Nameserver, Record
from tests.web import LocalWeb, generated_web

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE, OTHER, THIRD = "127.0.1.1", "127.0.1.2", "127.0.1.3"
BAD_SEEDS = ["wais://example.org/", "http://", "nonsense", "http://[::1/", "http://127.0.0.1:99999/"]


def lines_with(text: str, word: str) -> list[str]:
    return [line for line in text.splitlines() if word in line]


def test_invalid_seeds_are_reported_and_valid_ones_crawled(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE, OTHER)
    web.put(SITE, "/", "one")
    web.put(OTHER, "/", "two")
    result = crawl([web.url(SITE), *BAD_SEEDS, web.url(OTHER)])
    assert {row["url"] for row in result.rows()} == {web.url(SITE), web.url(OTHER)}
    for seed in BAD_SEEDS:
        assert len(lines_with(result.stderr, repr(seed))) == 1, seed
    assert "Traceback" not in result.stderr


def test_seeds_are_read_from_a_file(local_web: StartWeb, crawl: RunCrawl, tmp_path: Path) -> None:
    web = local_web(SITE, OTHER)
    web.put(SITE, "/", "one")
    web.put(OTHER, "/", "two")
    seeds = tmp_path / "seeds.txt"
    seeds.write_text(f"# two sites\n{web.url(SITE)}\n\n  {web.url(OTHER)} # the other\nnonsense\n")
    result = crawl(f"@{seeds}")
    assert {row["url"] for row in result.rows()} == {web.url(SITE), web.url(OTHER)}
    assert len(lines_with(result.stderr, "nonsense")) == 1


def test_a_list_of_ten_thousand_patterns_decides_what_is_followed(
    local_web: StartWeb, crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    allowed, others = ["/section-77/a", "/section-9999/b"], ["/section-10000/a", "/old-7/section-77/a", "/n/"]
    web.put(SITE, "/", "".join(f"<a href={path}>x</a>" for path in (*allowed, *others)))
    for path in (*allowed, *others):
        web.put(SITE, path, "a page")
    (tmp_path / "long_lists.py").write_text(
        "from settings.local import *\n"
        "URL_ALLOW = [rf'^https?://[^/]+/.*\\bsection-{number}/' for number in range(10_000)]\n"
        "URL_DENY = [f'/old-{number}/' for number in range(100)]\n"
    )
    env = {"SCRAPY_SETTINGS_MODULE": "long_lists", "PYTHONPATH": str(tmp_path)}
    result = crawl([web.url(SITE)], env=env)
    assert {row["url"] for row in result.rows()} == {web.url(SITE, path) for path in ("/", *allowed)}


def test_a_crawl_without_a_valid_seed_fails(crawl: RunCrawl) -> None:
    result = crawl("nonsense", status=1)
    assert result.returncode not in (0, None)
    assert "at least one valid seed" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("begun", [False, True])
def test_an_unreadable_seed_file_fails_new_and_resumed_crawls(
    local_web: StartWeb, crawl: RunCrawl, begun: bool
) -> None:
    if begun:
        web = local_web(SITE)
        web.put(SITE, "/", "one")
        assert crawl([web.url(SITE)]).returncode == 0
    result = crawl("@/no/such/file", status=1)
    assert len(lines_with(result.stderr, "/no/such/file")) == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("DOWNLOAD_DELAY", "soon"),
        ("DOWNLOAD_MAXSIZE", "huge"),
        ("METADATA_URI", "oracle://nowhere"),
        ("PRIORITIZERS", "[1]"),
        ("URL_FILTERS", "nonsense"),
    ],
)
def test_a_wrong_setting_is_reported_in_one_line(
    crawl: RunCrawl, setting: str, value: str, tmp_path: Path
) -> None:
    result = crawl("http://127.0.0.1:9/", **{setting: value}, status=2)
    assert "Traceback" not in result.stderr
    assert len(lines_with(result.stderr, setting)) == 1, result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert not (tmp_path / "data" / "engine").exists(), "an engine was started"


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        (
            "STORE_URI",
            "file:///dev/null/pages",
            "STORE_URI file:///dev/null/pages: /dev/null is not a folder that can be written to",
        ),
        ("METADATA_URI", "sqlite:////dev/null/pages.db", "cannot create /dev/null: File exists"),
    ],
)
def test_an_unusable_store_is_reported_in_one_line(
    crawl: RunCrawl, setting: str, value: str, message: str, tmp_path: Path
) -> None:
    result = crawl("http://127.0.0.1:9/", **{setting: value}, status=2)
    assert (result.returncode, result.stderr) == (2, f"scrapy crawl: {message}\n")
    assert not (tmp_path / "data" / "engine").exists(), "an engine was started"


@pytest.mark.parametrize(("name", "value"), [("scope", "planet"), ("seed", "http://127.0.0.1:9/")])
def test_a_wrong_argument_is_reported_in_one_line(run_crawl: RunCrawl, name: str, value: str) -> None:
    result = run_crawl("broad", arguments={name: value}, status=2)
    assert "Traceback" not in result.stderr
    assert len(lines_with(result.stderr, name)) == len(result.stderr.splitlines()) == 1


def test_an_unreachable_engine_is_reported_without_its_password(crawl: RunCrawl) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{closed.getsockname()[1]}/0"
        result = crawl("http://127.0.0.1:9/", REDIS_URL=f"redis://:secret@{place}", status=1)
    assert place in lines_with(result.stderr, "REDIS_URL")[0]
    assert "Traceback" not in result.stderr
    assert "secret" not in result.stderr + result.stdout


@pytest.mark.parametrize("workers", [1, 2])
def test_the_page_limit_is_exact_and_a_larger_one_continues_the_crawl(
    local_web: StartWeb, crawl: RunCrawl, workers: int
) -> None:
    web = local_web(SITE, OTHER, THIRD)
    graph = generated_web(11, web, pages=50)
    seeds = [web.url(label) for label in (SITE, OTHER, THIRD)]
    result = crawl(seeds, workers=workers, CRAWL_MAX_PAGES=17)
    assert (result.summary["pages"], result.summary["finish_reason"]) == (17, "max_pages")
    assert len(web.urls()) == len(result.rows()) == 17
    assert (result.summary["leased"], result.summary["queued"]) == (0, result.summary["seen_urls"] - 17)
    result = crawl(seeds, workers=workers, CRAWL_MAX_PAGES=1000)
    assert sorted(web.urls()) == sorted(graph.reachable(*seeds))
    assert result.summary["pages"] == len(graph.reachable(*seeds))
    assert result.summary["finish_reason"] == "finished"


def test_errors_do_not_count_against_the_page_limit(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "".join(f"<a href=/missing{n}>x</a><a href=/page{n}>y</a>" for n in range(8)))
    for number in range(8):
        web.put(SITE, f"/page{number}", f"page {number}")
    result = crawl([web.url(SITE)], CRAWL_MAX_PAGES=5)
    assert result.summary["pages"] == 5
    assert len([row for row in result.rows() if row["status"] == 200]) == 5


def test_closespider_pagecount_stops_a_crawl_that_can_be_continued(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    graph = generated_web(12, web, pages=40)
    home = web.url(SITE)
    result = crawl([home], CLOSESPIDER_PAGECOUNT=10)
    assert result.summary["finish_reason"] == "closespider_pagecount"
    assert 10 <= result.summary["pages"] <= 12
    assert result.summary["leased"] == 0
    crawl([home])
    assert sorted(web.urls()) == sorted(graph.reachable(home))


def test_links_beyond_the_depth_limit_are_not_followed(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    for number in range(5):
        web.put(
            SITE, f"/{number}" if number else "/", f"{number} <a href=/{number + 1}>on</a><a href=/to>to</a>"
        )
        web.put(SITE, "/to", "")
    result = crawl([web.url(SITE)], DEPTH_LIMIT=2)
    depths = {row["url"].rpartition("/")[2]: row["depth"] for row in result.rows()}
    assert depths == {"": 0, "1": 1, "2": 2, "to": 1}


def test_scope_domain_includes_subdomains(local_web: StartWeb, crawl: RunCrawl) -> None:
    names = ("www.shop.example", "blog.shop.example", "other.example")
    web = local_web(*names)
    links = "".join(f'<a href="{web.url(name, "/page")}">x</a>' for name in names)
    for name in names:
        web.put(name, "/", name + links)
        web.put(name, "/page", name + links)
    options = {"scope": "domain", "ALLOWED_NETWORKS": "127.0.0.0/8"}
    with Nameserver({"*.example": [Record("A", "127.0.0.1")]}) as nameserver:
        result = crawl([web.url("www.shop.example")], DNS_SERVERS=nameserver.address, **options)
    assert {hit.host for hit in web.log()} == {"www.shop.example", "blog.shop.example"}
    assert result.summary["hosts"] == 2


def test_progress_without_a_terminal_is_plain_lines(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    generated_web(13, web, pages=8)
    result = crawl([web.url(SITE)], DOWNLOAD_DELAY=0.2, PROGRESS_INTERVAL=0.5)
    running: list[str] = lines_with(result.stderr, "pages (")
    assert running
    for word in ("queued", "hosts", "errors", "duplicates", "/s"):
        assert word in running[-1]
    summary: dict[str, Any] = json.loads((result.data_dir / "summary.json").read_text())
    assert f"{summary['pages']}" in result.stderr
