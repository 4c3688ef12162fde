"""A crawl with POLITENESS_ADAPT on a server whose latency grows with load."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import accumulate, pairwise

from tests.crawls import CrawlResult
from tests.web import Hit, LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE, PAGES = "127.0.1.1", 50


class Busy:
    """Pages each of which leaves the server work for `seconds`; a request waits until the work before it is done."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._done, self._lock = seconds, 0.0, threading.Lock()
        self.waits: list[float] = []

    def __call__(self, hit: Hit) -> Reply:
        with self._lock:
            now = time.monotonic()
            self.waits.append(wait := max(self._done - now, 0.0))
            self._done = max(self._done, now) + self._seconds
        links = "".join(f"<a href=/{n}>{n}</a>" for n in range(PAGES)) if hit.path == "/" else hit.path
        return Reply(links, delay=wait)


def gaps_of(web: LocalWeb) -> list[float]:
    return [later.started - earlier.finished for earlier, later in pairwise(web.pages(SITE))]


def test_the_delay_falls_until_the_server_is_strained(local_web: StartWeb, crawl: RunCrawl) -> None:
    web, busy, delay = local_web(SITE), Busy(0.1), 0.3
    for path in ("/", *(f"/{n}" for n in range(PAGES))):
        web.put(SITE, path, busy)
    crawl([web.url(SITE)], DOWNLOAD_DELAY=delay, POLITENESS_ADAPT=True, POLITENESS_MIN_DELAY=0.001)
    gaps = gaps_of(web)
    assert len(gaps) == PAGES
    assert min(gaps[:2]) >= delay, "four answers, with that of robots.txt, tell what is quick"
    assert min(gaps) < delay / 2, "it never fell"
    # it rises and falls in turn; after a rise it stays for four answers, and a single long gap may be a busy machine
    least = accumulate(gaps, min)
    rises = [
        min(three) > 1.5 * before
        for before, three in zip(least, zip(gaps[1:], gaps[2:], gaps[3:], strict=False), strict=False)
    ]
    assert any(rises), "it never grew"
    assert any(busy.waits), "the server was never strained"


def test_a_crawl_delay_is_kept(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    web.put(
        SITE,
        "/robots.txt",
        Reply("User-agent: *\nCrawl-delay: 0.2\n", headers={"Content-Type": "text/plain"}),
    )
    web.put(SITE, "/", "".join(f"<a href=/{n}>{n}</a>" for n in range(12)))
    for n in range(12):
        web.put(SITE, f"/{n}", f"{n}")
    crawl([web.url(SITE)], DOWNLOAD_DELAY=0.2, POLITENESS_ADAPT=True, POLITENESS_MIN_DELAY=0.001)
    assert len(gaps_of(web)) == 12
    assert min(gaps_of(web)) >= 0.2
