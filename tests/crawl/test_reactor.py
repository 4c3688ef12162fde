"""Components that need Twisted's reactor are refused in a crawl on asyncio."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.crawls import CHECKOUT, CrawlResult, inherited
from tests.web import LocalWeb

SITE = "127.0.1.1"


def test_a_download_handler_that_needs_the_reactor_is_refused_at_the_start(
    run_crawl: Callable[..., CrawlResult], local_web: Callable[..., LocalWeb]
) -> None:
    web = local_web(SITE)
    handler = "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"
    handlers = {"https": handler}
    result = run_crawl(
        "broad",
        [web.url(SITE)],
        DOWNLOAD_HANDLERS=json.dumps(handlers),
        CRAWL_WITHOUT="address_guard",  # otherwise it is refused for want of that
        status=2,
    )
    assert result.stderr.strip().splitlines() == [
        f"scrapy crawl: DOWNLOAD_HANDLERS 'https': {handler} cannot be used: HTTP11DownloadHandler requires a "
        "Twisted reactor. This crawl runs on asyncio without it: remove the component, use one that runs on asyncio "
        "(for browser impersonation webcrawl.crawler.download.curl.CurlDownloadHandler), or set "
        "TWISTED_REACTOR_ENABLED = True"
    ]
    assert web.log() == []


RUNNER = """
import asyncio, sys
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.utils.project import get_project_settings

async def main():
    crawler = AsyncCrawlerRunner(get_project_settings()).create_crawler("broad")
    mine = {"tests.crawl.needs_reactor.WaitingMiddleware": 500}
    for name, value in {"DATA_DIR": sys.argv[2], "DOWNLOADER_MIDDLEWARES": mine, "DOWNLOAD_DELAY": 0}.items():
        crawler.settings.set(name, value, priority="cmdline")
    await crawler.crawl_async(seeds=sys.argv[1], scope="host")
    print(crawler.stats.get_value("finish_reason"))
    import twisted.internet.reactor

asyncio.run(main())
"""


def test_a_crawl_of_a_runner_forbids_the_reactor_until_it_ends(
    local_web: Callable[..., LocalWeb], tmp_path: Path
) -> None:
    """The reactor could be imported, but would never run: the request would wait for ever."""
    web = local_web(SITE)
    web.put(SITE, "/", "a page")
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, web.url(SITE), str(tmp_path / "data")],
        cwd=CHECKOUT,
        env=inherited(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "cannot_start\n"), done.stderr


def test_a_middleware_that_needs_the_reactor_ends_the_crawl_and_no_url_is_lost(
    run_crawl: Callable[..., CrawlResult], local_web: Callable[..., LocalWeb]
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "a page")
    mine = {"tests.crawl.needs_reactor.WaitingMiddleware": 500}
    settings = {"DOWNLOAD_DELAY": 0, "LOG_LEVEL": "WARNING"}
    env = {"PYTHONPATH": str(CHECKOUT)}
    refused = run_crawl(
        "broad", [web.url(SITE)], env=env, DOWNLOADER_MIDDLEWARES=json.dumps(mine), **settings, status=1
    )
    assert refused.stderr.count("a component needs Twisted's reactor") == 1
    assert "tests/crawl/needs_reactor.py:" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert web.paths(SITE) == ["/robots.txt"]
    # without the middleware the crawl goes on: the URL was neither fetched nor counted as failed
    resumed = run_crawl("broad", env=env, **settings)
    assert (resumed.returncode, resumed.summary["pages"], resumed.summary["retried"]) == (0, 1, 0)
