"""The importance of pages in whole crawls."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis

from tests.crawls import Crawl, CrawlResult, until
from tests.frontier.credits import Credits
from tests.web import LocalWeb, Reply, generated_web
from webcrawl.engine.keys import Keys
from webcrawl.policies.importance import TOTAL

RunCrawl = Callable[..., CrawlResult]
StartCrawl = Callable[..., Crawl]
StartWeb = Callable[..., LocalWeb]

SITE, OTHER = "127.0.1.1", "127.0.1.2"
LEAVES = 12


def publish_hub(web: LocalWeb) -> str:
    """A start page, leaves that it links to, and a hub that all leaves link to; one of them redirects there."""
    leaves = "".join(f"<a href=/leaf{n}>{n}</a>" for n in range(LEAVES))
    for number in range(LEAVES - 1):
        web.put(SITE, f"/leaf{number}", f"{number}<a href=/hub>hub</a><a href=/rare{number}>rare</a>")
        web.put(SITE, f"/rare{number}", f"rare {number}")
    web.put(SITE, f"/leaf{LEAVES - 1}", Reply(status=301, headers={"Location": "/hub"}))
    web.put(SITE, "/hub", "the hub <a href=https://elsewhere.test/>out of scope</a>")
    return web.put(SITE, "/", leaves)


def test_what_many_pages_link_to_is_important(local_web: StartWeb, crawl: RunCrawl, tmp_path: Path) -> None:
    web = local_web(SITE)
    feed = tmp_path / "pages.jsonl"
    result = crawl(
        [publish_hub(web)], IMPORTANCE="aopic", FEEDS=json.dumps({feed.as_uri(): {"format": "jsonlines"}})
    )
    rows = {row["url"].removeprefix(web.host(SITE)): row["importance"] for row in result.rows()}
    assert rows["/"] == 0.0, "nothing links to the seed"
    assert all(isinstance(value, float) for value in rows.values())
    assert rows["/hub"] > sum(rows[f"/rare{n}"] for n in range(LEAVES - 1))
    assert rows["/hub"] > rows["/leaf0"]
    told = {page["url"]: page["importance"] for page in map(json.loads, feed.read_text().splitlines())}
    assert told[web.url(SITE, "/hub")] <= rows["/hub"], "a feed has what was known when the page was fetched"


def test_credit_settles_when_the_links_of_all_pages_are_known(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    seed = publish_hub(web)
    web.put(SITE, "/hub", "the hub <a href=/behind>behind</a>")
    web.put(SITE, "/behind", "what only the hub links to")
    rows = {row["url"].removeprefix(web.host(SITE)): row["importance"] for row in crawl([seed]).rows()}
    # each leaf has what the start page gives; the hub gives on what all leaves have brought
    mean = 1 - sum(rows.values()) / len(rows)
    assert rows["/leaf0"] == pytest.approx(0.9 * mean / LEAVES, rel=0.01)
    half = 0.9 / 2 * (rows["/leaf0"] + mean)
    assert rows["/hub"] == pytest.approx(
        (LEAVES - 1) * half + 0.9 * (rows[f"/leaf{LEAVES - 1}"] + mean), rel=0.01
    )
    assert rows["/behind"] == pytest.approx(0.9 * (rows["/hub"] + mean), rel=0.01)


def test_importance_is_that_of_credit_where_links_are_not_known(
    local_web: StartWeb, start_crawl: StartCrawl, tmp_path: Path
) -> None:
    """As when other workers crawled on other machines."""
    web = local_web(SITE)
    seed = publish_hub(web)
    first = start_crawl("broad", [seed], data_dir=tmp_path / "data", DOWNLOAD_DELAY=0.1)
    until(lambda: len(web.hits) >= 8, first)
    first.kill()
    for links in (tmp_path / "data" / "importance" / "broad").iterdir():
        links.unlink()
    result = start_crawl("broad", [seed], data_dir=tmp_path / "data").wait()
    rows = {row["url"].removeprefix(web.host(SITE)): row["importance"] for row in result.rows()}
    assert rows["/"] == 0.0
    assert rows["/hub"] > rows["/leaf0"] > 0
    assert any(value != round(value, 4) for value in rows.values())


def test_credit_settles_after_a_kill_and_with_two_workers(
    local_web: StartWeb, start_crawl: StartCrawl, redis_url: str, tmp_path: Path
) -> None:
    web = local_web(SITE, OTHER)
    generated_web(5, web, pages=60)
    seeds = [web.url(SITE), web.url(OTHER)]

    def crawl(folder: str, **options: object) -> Crawl:
        return start_crawl("broad", seeds, data_dir=tmp_path / folder, **options)

    expected = {row["url"]: row["importance"] for row in crawl("one").wait().rows()}
    before = len(web.hits)
    options = {"REDIS_URL": redis_url, "DOWNLOAD_DELAY": 0.05, "FRONTIER_LEASE_SECONDS": 2}
    workers = [crawl("two", **options), crawl("two", **options)]
    until(lambda: len(web.hits) >= before + 30, workers[0])
    workers[0].kill()
    found = {row["url"]: row["importance"] for row in workers[1].wait().rows()}
    assert found == pytest.approx(expected, rel=0.01)
    assert max(found.values()) > 2 * min(found.values())


def test_without_importance_rows_have_none(local_web: StartWeb, crawl: RunCrawl) -> None:
    result = crawl([publish_hub(local_web(SITE))], IMPORTANCE="off")
    assert {row["importance"] for row in result.rows()} == {None}


@pytest.mark.parametrize("order", ["depth-first", "random"])
def test_importance_changes_no_other_order(local_web: StartWeb, crawl: RunCrawl, order: str) -> None:
    result = crawl([publish_hub(local_web(SITE))], FRONTIER_ORDER=order, IMPORTANCE="aopic")
    assert sum(row["importance"] for row in result.rows()) > 0


def test_no_credit_is_lost_when_workers_are_killed(
    local_web: StartWeb, start_crawl: StartCrawl, redis_url: str, valkey: Redis, tmp_path: Path
) -> None:
    web, keys = local_web(SITE, OTHER), Keys("broad", 16)
    graph = generated_web(5, web, pages=60)
    seeds = [web.url(SITE), web.url(OTHER)]

    def start(place: int) -> Crawl:
        options = {
            "REDIS_URL": redis_url,
            "DOWNLOAD_DELAY": 0.05,
            "FRONTIER_LEASE_SECONDS": 2,
            "IMPORTANCE": "aopic",
        }
        folder = tmp_path / str(place)
        return start_crawl("broad", seeds, data_dir=folder, **options)

    workers = [start(1), start(2)]
    until(lambda: len(web.hits) >= 30, workers[0])
    workers[0].kill()
    # the credit is read key by key, so the other worker must not move any meanwhile
    os.killpg(workers[1].process.pid, signal.SIGSTOP)
    time.sleep(0.1)  # what it had sent has arrived
    total = Credits.read(valkey, keys).total
    os.killpg(workers[1].process.pid, signal.SIGCONT)
    assert total == TOTAL
    workers[1].wait()
    assert set(web.urls()) == graph.reachable(*seeds)
    found = Credits.read(valkey, keys)
    assert (found.total, found.waiting) == (TOTAL, 0)
