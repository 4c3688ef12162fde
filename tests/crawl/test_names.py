"""Ports of one name share their turns, measured by the logs of both servers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from tests.crawls import CrawlResult
from tests.web import LocalWeb

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

ONE, TWO = "127.0.1.1", "127.0.1.1:0"
"""Two ports of one address."""


def sites(local_web: StartWeb, pages: int) -> tuple[LocalWeb, list[str]]:
    web = local_web(ONE, TWO)
    links = "".join(f"<a href=/{n}>{n}</a>" for n in range(pages))
    for label in (ONE, TWO):
        for n in range(pages):
            web.put(label, f"/{n}", f"page {n} of {label}")
    return web, [web.put(label, "/", links) for label in (ONE, TWO)]


def test_ports_of_a_name_share_the_delay_over_workers(local_web: StartWeb, crawl: RunCrawl) -> None:
    web, seeds = sites(local_web, 5)
    crawl(seeds, workers=2, DOWNLOAD_DELAY=0.1)
    assert len(web.urls()) == 12
    log = web.log()
    assert web.max_concurrency() == 1
    assert min(after.started - before.finished for before, after in pairwise(web.pages())) >= 0.1
    assert len([hit for hit in log if hit.path == "/robots.txt"]) >= 2, "each port has its own robots.txt"


def test_with_origins_each_port_has_its_own_delay(local_web: StartWeb, crawl: RunCrawl) -> None:
    web, seeds = sites(local_web, 3)
    crawl(seeds, DOWNLOAD_DELAY=0.2, POLITENESS_UNIT="origin")
    assert len(web.urls()) == 8
    assert min(web.min_gap(label) for label in (ONE, TWO)) >= 0.2
    assert min(after.started - before.finished for before, after in pairwise(web.pages())) < 0.2


def test_a_closed_port_does_not_condemn_the_others_of_its_name(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(ONE)
    home = web.put(ONE, "/", "<a href=/1>1</a>")
    web.put(ONE, "/1", "one")
    closed = "http://127.0.1.1:9/"
    limits = {"POLITENESS_MAX_FAILURES": 2, "POLITENESS_BACKOFF": 0.1, "FRONTIER_RETRY_DELAY": 0.1}
    result = crawl([closed, home], **limits)
    assert sorted(web.urls()) == sorted([home, home + "1"])
    assert result.summary["dead_letters"] == 1
