"""The crawl of an iteration that has an engine of its own has its pages in the dashboard of the jobs while it runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import update

from tests.crawls import NO_NAMES, Crawl, until
from tests.web import LocalWeb, Reply
from webcrawl.engine.embedded import answers
from webcrawl.engine.server_folder import socket_path
from webcrawl.jobs.records import IterationState
from webcrawl.jobs.store import JobStore, add_iteration
from webcrawl.jobs.tables import iterations

SITE = "127.0.1.1"


def overrun(store: JobStore, times: int) -> None:
    """Skips firings of the job, as a scheduler does while an iteration of it still runs."""
    now = datetime.now(UTC).replace(microsecond=0)
    for number in range(1, times + 1):
        due = now + timedelta(seconds=number)
        skip = partial(add_iteration, job="news", due=due, now=now, skipped="the one before still runs")
        store.database.write(skip)


def test_a_crawl_with_an_engine_of_its_own_has_its_pages(
    local_web: Callable[..., LocalWeb],
    start_crawl: Callable[..., Crawl],
    start_dashboard: Callable[..., Any],
    open_page: Callable[..., Any],
    tmp_path: Path,
) -> None:
    (tmp_path / "data").mkdir()
    web = local_web(SITE)
    web.put(SITE, "/", "".join(f'<a href="/{number}">{number}</a>' for number in range(20)))
    for number in range(20):
        web.put(SITE, f"/{number}", Reply("slow", delay=600))
    store = JobStore(f"sqlite:///{tmp_path}/data/metadata.db")
    store.apply([{"name": "news", "cron": "0 6 * * *", "spider": "broad"}], datetime.now(UTC))
    one, folder = store.run("news", datetime.now(UTC)), tmp_path / "data" / "jobs" / "1"
    values = {
        "state": IterationState.RUNNING,
        "started": one.due,
        "data_dir": str(folder),
        "found": 21,
        "queued": 20,
    }
    statement = update(iterations).where(iterations.c.id == one.id).values(values)
    store.database.write(lambda connection: connection.execute(statement))
    dashboard = start_dashboard()
    options: dict[str, Any] = {"CRAWL_ID": one.crawl, "DNS_SERVERS": NO_NAMES}
    crawl = start_crawl("broad", [web.url(SITE)], data_dir=folder, **options)
    until(lambda: len(web.paths(SITE)) > 2, crawl)
    overrun(store, 3)
    page = open_page("/", dashboard.url)
    page.get_by_role("heading", name=one.crawl).wait_for()
    assert "No crawl yet" not in page.locator("main").inner_text()
    page.goto(f"{dashboard.url}/jobs")
    page.get_by_role("link", name="its crawl").click()
    page.get_by_role("heading", name=one.crawl).wait_for()
    page.get_by_role("button", name="Pause").click()
    page.locator("[data-state=paused]").first.wait_for()
    page.goto(f"{dashboard.url}/jobs/news/records?iteration=1&state=QUEUED")
    assert page.locator("tbody tr").count() == 20
    # the dashboard keeps no engine running
    crawl.kill()
    socket = socket_path(folder.resolve() / "engine")
    until(lambda: not answers(socket), dashboard.process)
    page.goto(f"{dashboard.url}/jobs")
    page.get_by_text("its crawl is shown by").wait_for()
    page.goto(f"{dashboard.url}/")
    assert "No crawl here" in page.locator("main").inner_text()
    page.locator("main").get_by_role("link", name="news").click()
    page.get_by_role("heading", name="news").wait_for()
    page.goto(f"{dashboard.url}/crawls/{one.crawl}")
    assert "there is no crawl" in page.locator("main").inner_text()
    store.close()
