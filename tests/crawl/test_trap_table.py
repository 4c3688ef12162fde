"""The sites of the benchmark of traps on a small scale, by the server's log."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

from benchmarks.hostile import requests
from benchmarks.served import free_port
from benchmarks.trap_report import counted
from benchmarks.trap_web import WHOLE, TrapWeb
from benchmarks.traps import served
from tests.crawls import CrawlResult, scrapy

RunCrawl = Callable[..., CrawlResult]


def fetched(
    web: TrapWeb, seeds: list[str], crawl: RunCrawl, folder: Path, **settings: object
) -> dict[str, int]:
    """Crawls the whole web from some seeds; returns the pages of each site that were asked for."""
    names, log = free_port("127.0.0.1", socket.SOCK_DGRAM), folder / "requests"
    with served(web, names, log):
        result = crawl(
            seeds,
            scope="web",
            DNS_SERVERS=f"127.0.0.1:{names}",
            ALLOWED_NETWORKS="127.0.0.0/8",
            **settings,
        )
    assert result.returncode == 0, result.stderr
    return {name: pages for name, _, pages, _ in counted([url for _, url in requests(log)], web)}


def test_a_forum_of_one_pattern_and_a_deep_site_are_fetched_whole(crawl: RunCrawl, tmp_path: Path) -> None:
    web = TrapWeb(free_port("0.0.0.0"), pages=240, hosts=0)
    found = fetched(web, [web.start(site) for site in WHOLE], crawl, tmp_path)
    assert found == {site: web.whole(site) for site in WHOLE} == {"forum": 613, "chain": 121}


def test_the_frontier_tells_which_sites_repeat_themselves(crawl: RunCrawl, tmp_path: Path) -> None:
    traps = ("calendar", "session", "repeat")
    web = TrapWeb(free_port("0.0.0.0"), pages=600, hosts=1, traps=traps)
    seeds = [web.start(site) for site in (*traps, *range(web.hosts))]
    fetched(web, seeds, crawl, tmp_path, CRAWL_MAX_PAGES=web.pages)
    told = scrapy("frontier", "--json", "-s", f"DATA_DIR={tmp_path / 'data'}")
    assert told.returncode == 0, told.stderr
    sunk = json.loads(told.stdout)["sunk_patterns"]
    assert {one["host"] + "/" for one in sunk["worst"]} == {web.start(trap) for trap in traps}
    assert sunk["hosts"] == 3, "an honest site has sunk"
    assert all(one["why"].endswith("pages were copies") for one in sunk["worst"])
