"""Components that need Twisted's reactor are refused in a crawl on asyncio."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.crawls import CHECKOUT, CrawlResult
from tests.web import LocalWeb

SITE = "127.0.1.1"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_download_handler_that_needs_the_reactor_is_refused_at_the_start(
    scheme: str, run_crawl: Callable[..., CrawlResult], local_web: Callable[..., LocalWeb]
) -> None:
    web = local_web(SITE)
    handler = "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"
    handlers = {scheme: handler}
    result = run_crawl(
        "broad",
        [web.url(SITE)],
        DOWNLOAD_HANDLERS=json.dumps(handlers),
        CRAWL_WITHOUT="address_guard",  # otherwise it is refused for want of that
    )
    assert result.returncode == 2
    assert result.stderr.strip().splitlines() == [
        f"scrapy crawl: DOWNLOAD_HANDLERS '{scheme}': {handler} cannot be used: HTTP11DownloadHandler requires a "
        "Twisted reactor. This crawl runs on asyncio without it: remove the component, use one that runs on asyncio "
        "(for browser impersonation webcrawl.crawler.download.curl.CurlDownloadHandler), or set "
        "TWISTED_REACTOR_ENABLED = True"
    ]
    assert web.log() == []


def test_a_middleware_that_needs_the_reactor_ends_the_crawl_and_no_url_is_lost(
    run_crawl: Callable[..., CrawlResult], local_web: Callable[..., LocalWeb]
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "a page")
    mine = {"tests.crawl.needs_reactor.WaitingMiddleware": 500}
    settings = {"DOWNLOAD_DELAY": 0, "LOG_LEVEL": "WARNING"}
    env = {"PYTHONPATH": str(CHECKOUT)}
    refused = run_crawl(
        "broad",
        [web.url(SITE)],
        env=env,
        DOWNLOADER_MIDDLEWARES=json.dumps(mine),
        **settings,
    )
    assert refused.returncode == 1
    assert refused.stderr.count("a component needs Twisted's reactor") == 1
    assert "tests/crawl/needs_reactor.py:" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert web.paths(SITE) == ["/robots.txt"]
    # without the middleware the crawl goes on: the URL was neither fetched nor counted as failed
    resumed = run_crawl("broad", env=env, **settings)
    assert (resumed.returncode, resumed.summary["pages"], resumed.summary["retried"]) == (0, 1, 0)
