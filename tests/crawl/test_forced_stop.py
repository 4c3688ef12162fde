"""A second Ctrl-C ends a crawl at once, with one line about what that means, and loses nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.crawls import Crawl, until
from tests.web import LocalWeb, Reply

SITE = "127.0.1.1"


def test_a_second_interrupt_ends_the_crawl_and_the_next_run_goes_on(
    local_web: Callable[..., LocalWeb], start_crawl: Callable[..., Crawl]
) -> None:
    web = local_web(SITE)
    replies = iter([Reply("slow", delay=60.0)])
    home = web.put(SITE, "/", lambda hit: next(replies, Reply("<title>Home</title>")))
    options = {"FRONTIER_LEASE_SECONDS": 5}
    crawl = start_crawl("broad", [home], **options)
    until(lambda: len(web.hits) == 2, crawl)
    while crawl.process.poll() is None:  # the first may come before the crawl can stop
        crawl.interrupt()
        time.sleep(0.3)
    result = crawl.wait(status=130)
    assert "SIGINT again: the crawl stops at once" in result.stderr
    assert not any(word in result.stderr for word in ("Traceback", "ERROR", "pending")), result.stderr
    again = start_crawl("broad", [home], **options).wait()
    assert again.summary["pages"] == 1, again.stderr


def test_a_second_interrupt_ends_a_crawl_whose_task_refuses_to_end(
    local_web: Callable[..., LocalWeb], start_crawl: Callable[..., Crawl]
) -> None:
    web = local_web(SITE)
    crawl = start_crawl(
        "hanging",
        [web.put(SITE, "/endless", "a page")],
        SPIDER_MODULES="tests.crawl.hanging_spider",
        ITEM_PIPELINES='{"tests.crawl.hanging_spider.HangingPipeline": 10}',
    )
    until(lambda: web.urls() != [] and "/endless" in web.urls()[-1], crawl)
    deadline = time.monotonic() + 60
    while crawl.process.poll() is None and time.monotonic() < deadline:
        crawl.interrupt()
        time.sleep(1)
    assert crawl.process.poll() == 130
