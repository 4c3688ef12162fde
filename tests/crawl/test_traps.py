"""Endless sites beside honest pages: their URL patterns sink, and the crawl shows which ones and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crawls import CrawlResult, scrapy
from tests.web import Hit, LocalWeb, Reply

SITE = "127.0.1.1"
ARTICLES = 60
NO_EVENTS = "No events are planned on this day. " + " ".join(str(day) for day in range(1, 32))
TEXT = "The {0} of {0} in {0}{0} was {0}1 {0}2 {0}3 {0}4 {0}5 {0}6 {0}7 {0}8 {0}9 told once and only once by {0}."


def word(number: int) -> str:
    return "".join(
        "bcdfghjklmnpqrstvwxz"[number // 20**place % 20] + "aeiou"[number % 5] for place in range(3)
    )


def article(number: int) -> Reply:
    following = "".join(
        f'<a href="/article/{n}">next</a>' for n in (2 * number + 1, 2 * number + 2) if n < ARTICLES
    )
    words = " ".join(word(number * 31 + n * 7919) for n in range(60))
    return Reply(f"<title>{number}</title><p>{words}. {TEXT.format(word(number))}</p>{following}")


def site(hit: Hit) -> Reply:
    """A tree of articles, and on each page of a calendar the same text and links to its next days."""
    path = hit.path
    if path == "/robots.txt":
        return Reply(status=404)
    if path.startswith("/article/"):
        return article(int(path.rpartition("/")[2]))
    if path.startswith("/calendar/"):
        day = int(path.rpartition("/")[2])
        links = "".join(f'<a href="/calendar/{3 * day + n}">.</a>' for n in (1, 2, 3))
        return Reply(f"<p>{NO_EVENTS}</p>{links}<!-- {day} -->")
    return Reply('<p>A start page</p><a href="/calendar/0">days</a><a href="/article/0">articles</a>')


def command(name: str, *args: str, data_dir: Path) -> dict[str, Any]:
    done = scrapy(name, "--json", *args, "-s", f"DATA_DIR={data_dir}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_calendar_sinks_below_the_articles_of_its_site(
    local_web: Callable[..., LocalWeb], crawl: Callable[..., CrawlResult]
) -> None:
    web = local_web(SITE)
    web.sites[SITE]["*"] = site
    # slow enough for a busy machine to know the copies while it fetches
    result = crawl([web.url(SITE)], CRAWL_MAX_PAGES=140, DOWNLOAD_DELAY=0.02)
    told = command("host", web.host(SITE), data_dir=result.data_dir)["patterns"]
    calendar, articles = told["/calendar/#"], told["/article/#"]
    assert articles["new"] == articles["fetched"]
    assert (articles["sinks_by"], articles["why"]) == (0, "")
    assert calendar["copies"] >= calendar["fetched"] - 1
    assert calendar["sinks_by"] == 8
    assert calendar["why"] == f"{calendar['copies']} of {calendar['fetched']} pages were copies"
    # in the order in which they are found, half of them would come after the last page
    assert articles["fetched"] == ARTICLES
    table = scrapy("host", web.host(SITE), "-s", f"DATA_DIR={result.data_dir}").stdout
    assert f"; sank by 8 levels: {calendar['why']}\n" in table
    sunk = command("status", data_dir=result.data_dir)["sunk_patterns"]
    assert (sunk["hosts"], sunk["patterns"]) == (1, 1)
    assert (sunk["worst"][0]["pattern"], sunk["worst"][0]["why"]) == ("/calendar/#", calendar["why"])
    lines = scrapy("status", "-s", f"DATA_DIR={result.data_dir}").stdout
    assert f"  {web.host(SITE)} /calendar/# sank by 8 levels: {calendar['why']}\n" in lines
    terms = [
        command("checkurl", web.url(SITE, f"/calendar/{day}"), data_dir=result.data_dir)["terms"]
        for day in range(1_000_000, 1_000_004)
    ]
    assert {term["PatternRecord"]["weight"] for term in terms} >= {-8.0}
    usual = command("checkurl", web.url(SITE, "/article/1"), data_dir=result.data_dir)
    assert usual["terms"]["PatternRecord"]["weight"] == 0.0
