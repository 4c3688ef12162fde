"""Pages whose callback or pipelines do not end: they are tried again and given up, and the crawl ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from tests.crawls import CrawlResult
from tests.web import LocalWeb

SITE = "127.0.1.1"
DELAY = 0.1


def test_pages_that_hang_are_tried_again_and_given_up(
    local_web: Callable[..., LocalWeb], run_crawl: Callable[..., CrawlResult]
) -> None:
    web = local_web(SITE)
    paths = ["/callback", "/pipeline", "/stubborn", "/good"]
    web.put(SITE, "/", "".join(f'<a href="{path}">{path}</a>' for path in paths))
    for path in paths:
        web.put(SITE, path, f"the page {path}")
    result = run_crawl(
        "hanging",
        [web.url(SITE, "/")],
        SPIDER_MODULES="tests.crawl.hanging_spider",
        ITEM_PIPELINES='{"tests.crawl.hanging_spider.HangingPipeline": 10}',
        DOWNLOAD_DELAY=DELAY,
        PROCESSING_TIMEOUT=1,
        FRONTIER_MAX_ATTEMPTS=2,
    )
    asked = Counter(hit.path for hit in web.log(SITE) if hit.path != "/robots.txt")
    # a busy machine may need more than a second for another page
    assert asked["/callback"] == asked["/pipeline"] == asked["/stubborn"] == 2 >= max(asked.values())
    summary = result.summary
    assert summary["pages"] + summary["dead_letters"] == 5 == summary["seen_urls"]
    assert summary["dead_letters"] >= 2 and summary["queued"] == summary["leased"] == 0
    assert "took longer than 1 s (PROCESSING_TIMEOUT)" in result.stderr
    pages = pairwise(web.pages(SITE))
    assert all(after.started - before.finished > DELAY - 0.01 for before, after in pages)
