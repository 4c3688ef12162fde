"""Consumer groups read the stream of pages while a crawl runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from redis import Redis

from tests.crawl.conftest import Project
from tests.crawls import CHECKOUT, Crawl, scrapy, until
from tests.web import LocalWeb, generated_web

SITES = tuple(f"127.0.1.{n}" for n in range(1, 5))
HERE = Project(CHECKOUT)


def test_two_groups_receive_every_page_of_a_crawl_with_a_killed_worker(
    start_crawl: Callable[..., Crawl],
    local_web: Callable[..., LocalWeb],
    redis_url: str,
    valkey: Redis,
    tmp_path: Path,
) -> None:
    web = local_web(*SITES)
    graph = generated_web(3, web, pages=50)
    seeds = [web.url(site) for site in SITES]
    # a control character that would move the cursor of a terminal
    title = "<meta charset=utf-8><title>\x9b2J</title>"
    web.put(SITES[0], "/", f"{title}{web.sites[SITES[0]]['/']}")
    engine = ("-s", f"REDIS_URL={redis_url}")

    def start() -> Crawl:
        settings = {"DOWNLOAD_DELAY": 0.05, "LISTENERS_MAXLEN": 1_000, "FRONTIER_LEASE_SECONDS": 2}
        return start_crawl("broad", seeds, REDIS_URL=redis_url, **settings)

    crawl = start()
    until(lambda: valkey.xlen("wc:{c:broad}:pages") >= 15, crawl)
    crawl.kill()
    # one reader stops halfway; another reader of its group continues
    lines = HERE.scrapy("listen", "--group", "index", "--reader", "1", "--count", "10", *engine).splitlines()
    assert len(lines) == 10
    result = start().wait(60)
    assert result.summary["finish_reason"] == "finished"
    lines += HERE.scrapy("listen", "--group", "index", "--reader", "2", "--once", *engine).splitlines()
    assert not any("\x9b" in line for line in lines)
    pages = [json.loads(line) for line in lines]
    assert any("\x9b" in (page.get("title") or "") for page in pages)
    assert {page["url"] for page in pages} == graph.reachable(*seeds)
    received = {(page["url"], page["fetched_at"]) for page in pages}
    assert len(received) == len(pages) == valkey.xlen("wc:{c:broad}:pages")
    stored = {(row["url"], row["fetched_at"]) for row in result.rows()}
    assert stored <= received

    counted = subprocess.run(
        [sys.executable, CHECKOUT / "examples" / "listeners" / "hosts.py", redis_url, "broad", "3"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    last = dict(eval(counted.splitlines()[-1], {"__builtins__": {}}))
    assert sum(last.values()) == len(pages)
    assert set(last) == {web.host(site) for site in SITES}


def test_the_number_of_pages_that_a_group_missed_is_reported(
    start_crawl: Callable[..., Crawl], local_web: Callable[..., LocalWeb], redis_url: str, valkey: Redis
) -> None:
    web = local_web(SITES[0])
    seeds = [web.put(SITES[0], f"/{number}", f"page {number}") for number in range(20)]
    start_crawl("broad", seeds, REDIS_URL=redis_url, LISTENERS_MAXLEN=1_000).wait(60)
    stream = "wc:{c:broad}:pages"
    valkey.xgroup_create(stream, "late", id="0")
    # some pages were read but not acknowledged
    valkey.xreadgroup("late", "1", {stream: ">"}, count=7)
    valkey.xtrim(stream, maxlen=5, approximate=False)
    done = scrapy(
        *("listen", "-s", f"REDIS_URL={redis_url}", "--group", "late", "--reader", "1", "--once"),
    )
    assert len(done.stdout.splitlines()) == 5
    assert done.stderr == "About 15 pages dropped out of the stream before they were read.\n"
