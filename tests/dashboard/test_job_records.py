"""The page of an iteration's records: filtered by state and by the beginning of URLs, and turned page by page."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.dashboard.site import ATTACK, narrow
from webcrawl.alarms.stuck import StuckPage, StuckPages
from webcrawl.documents.page import Page
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Candidate, Crawl, Frontier
from webcrawl.jobs.records import Iteration, IterationState
from webcrawl.jobs.store import JobStore
from webcrawl.jobs.tables import iterations
from webcrawl.stores.metadata import Metadata

NOW = datetime.now(UTC).replace(microsecond=0)
HOSTILE_URL = f"https://a.test/{ATTACK}"
HOST = "https://queue.test"


class Job:
    """A job with an iteration that runs, in a database and an engine."""

    def __init__(self, data_dir: Path, redis_url: str) -> None:
        self.uri, self.redis_url = f"sqlite:///{data_dir}/metadata.db", redis_url
        store = JobStore(self.uri)
        store.apply([{"name": "morning", "cron": "0 6 * * *", "spider": "broad"}], NOW)
        one = store.run("morning", NOW - timedelta(hours=1))
        values = {
            "state": IterationState.RUNNING,
            "started": one.due,
            "data_dir": str(data_dir),
            "found": 263,
        }
        values |= {"queued": 260, "processed": 2, "stuck": 1}
        statement = update(iterations).where(iterations.c.id == one.id).values(values)
        store.database.write(lambda connection: connection.execute(statement))
        self.iteration: Iteration = store.iterations("morning")[0]
        store.close()

    def store(self) -> None:
        """A page that is stuck, and two that were processed."""
        with Metadata(self.uri) as metadata, StuckPages(self.uri) as stuck:
            stuck.add([StuckPage(self.iteration.crawl, HOSTILE_URL, "DOCUMENT", ATTACK, NOW, NOW, NOW)])
            for url in ("https://done.test/", HOSTILE_URL + "/done"):
                page = Page(url=url, host="https://done.test", fetched_at=NOW, status=200)
                queued = {"crawl": self.iteration.crawl, "queued_at": NOW - timedelta(minutes=20)}
                metadata.upsert([page.row() | queued])

    def queue(self, urls: int) -> None:
        """Queues URLs of a host, and one of another host."""
        with ThreadPoolExecutor(1) as pool:  # this thread has a running loop
            pool.submit(asyncio.run, self._queue(urls)).result(60)

    async def _queue(self, urls: int) -> None:
        engine = Engine(self.redis_url)
        keys = Keys(self.iteration.crawl, 4)
        await Crawl(engine, keys, "w1").begin()
        some = [Candidate(HOST, f"/{number:04}", number) for number in range(urls)]
        await Frontier(engine, keys, "w1").add([*some, Candidate("https://b.test", f"/{ATTACK}", urls)])
        await engine.close()


@pytest.fixture
def job(tmp_path: Path, redis_url: str) -> Job:
    (tmp_path / "data").mkdir()
    return Job(tmp_path / "data", redis_url)


def test_records_are_filtered_and_turned_page_by_page(
    start_dashboard: Callable[..., Any],
    open_page: Callable[..., Any],
    check_accessible: Callable[[Any], None],
    job: Job,
) -> None:
    from playwright.sync_api import expect

    dashboard = start_dashboard(REDIS_URL=job.redis_url)
    page = open_page("/jobs/morning/records?iteration=1", dashboard.url)
    assert "No record yet" in page.locator("main").inner_text()
    assert "the engine of this crawl does not run" in page.locator("main").inner_text()
    check_accessible(page)
    job.store()
    job.queue(259)
    page.goto(f"{dashboard.url}/jobs/morning")
    page.locator("#iteration-1").get_by_role("link", name="263", exact=True).click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(1)
    assert "stuck" in rows.inner_text() and ATTACK in rows.inner_text()
    seen, pages = rows.all_inner_texts(), 1
    while (more := page.get_by_role("link", name="Next records")).count():
        # the keyboard reaches it like any link
        more.focus()
        page.keyboard.press("Enter")
        page.wait_for_load_state()
        page.get_by_role("link", name="First records").wait_for()
        seen, pages = seen + rows.all_inner_texts(), pages + 1
    assert len(seen) == len(set(seen)) == 263 and 4 <= pages <= 6
    assert "not known" not in "".join(seen)
    check_accessible(page)
    narrow(page)
    check_filters(page, check_accessible)


def check_filters(page: Any, check_accessible: Callable[[Any], None]) -> None:
    from playwright.sync_api import expect

    rows = page.locator("tbody tr")
    page.get_by_label("State").select_option("QUEUED")
    page.get_by_label("URL begins with").fill("queue.test/02")
    page.get_by_label("URL begins with").press("Enter")
    expect(rows).to_have_count(59)
    expect(page.get_by_label("URL begins with")).to_have_value("https://queue.test/02")
    expect(page.get_by_label("State")).to_have_value("QUEUED")
    first = rows.first.inner_text().split()
    assert first[:2] == ["https://queue.test/0200", "queued"]
    check_accessible(page)
    page.get_by_label("State").select_option("PROCESSED")
    page.get_by_label("URL begins with").fill("https://a.test/<script>")
    page.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(1)
    # 20 minutes before this test was imported
    assert "/done" in rows.inner_text() and re.search(r"\b[2-9]\d min ago", rows.inner_text())
    page.get_by_label("URL begins with").fill(ATTACK)
    page.get_by_role("button", name="Show").click()
    page.get_by_text("No record is like that").wait_for()
    check_accessible(page)


def test_what_cannot_be_shown_is_told(
    start_dashboard: Callable[..., Any], open_page: Callable[..., Any], job: Job
) -> None:
    dashboard = start_dashboard(REDIS_URL=job.redis_url)
    job.queue(1)
    for query, told in (
        ("iteration=7", "job 'morning' has no iteration '7' among its latest 200"),
        (
            "iteration=1&state=LOST",
            "'LOST' is no state of a URL: choose one of QUEUED, CRAWLED, PROCESSED, STUCK",
        ),
        ("iteration=1&after=rows%3A%22%3E%3Cscript%3E&state=STUCK", "is no position in these records"),
        ("iteration=1&after=engine%3Ax&state=QUEUED", "'x' is no place in a queue: begin at its first page"),
    ):
        page = open_page(f"/jobs/morning/records?{query}", dashboard.url)
        assert told in page.locator("main").inner_text()
        page.close()
