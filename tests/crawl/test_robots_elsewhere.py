"""A robots.txt that redirects to another host takes that host's turn over all workers, by the log of the server."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

TARGET = "127.0.1.1"
OTHERS = [f"127.0.1.{n}" for n in range(2, 12)]


def test_a_robots_txt_elsewhere_keeps_the_delay_of_its_host_over_workers(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(TARGET, *OTHERS)
    rules = web.put(TARGET, "/robots.txt", "User-agent: *\nDisallow: /secret")
    pages = range(12)
    web.put(TARGET, "/", "".join(f"<a href=/{n}>{n}</a>" for n in pages))
    for n in pages:
        web.put(TARGET, f"/{n}", f"page {n}")
    for label in OTHERS:
        web.put(label, "/robots.txt", Reply(status=301, headers={"Location": rules}))
        web.put(label, "/", "home <a href=/secret>secret</a>")
    seeds = [web.url(label) for label in (TARGET, *OTHERS)]
    crawl(
        seeds,
        workers=2,
        DOWNLOAD_DELAY=0.1,
        tuned={"lease_urls": 3},
        FRONTIER_LEASE_SECONDS=10,
    )
    assert {hit.path for hit in web.log(TARGET)} == {"/", "/robots.txt", *(f"/{n}" for n in pages)}
    assert len([path for path in web.paths(TARGET) if path == "/robots.txt"]) > len(OTHERS)
    # a host whose robots.txt waited for too long is asked for it again
    assert all({hit.path for hit in web.log(label)} == {"/robots.txt", "/"} for label in OTHERS)
    assert web.max_concurrency(TARGET) == 1
    assert web.min_gap(TARGET) >= 0.1
    log = web.log(TARGET)
    hurried = [after for before, after in pairwise(log) if after.started - before.finished < 0.1]
    assert len(hurried) <= 1, "only behind the robots.txt for its own pages"
