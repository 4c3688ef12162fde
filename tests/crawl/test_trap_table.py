"""The sites of the benchmark of traps on a small scale, by the server's log."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from benchmarks.hostile import requests
from benchmarks.served import free_port
from benchmarks.trap_report import counted
from benchmarks.trap_web import WHOLE, TrapWeb
from benchmarks.traps import served
from tests.crawls import CrawlResult

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
