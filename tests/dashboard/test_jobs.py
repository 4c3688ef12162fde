"""The page of jobs: schedules, progress, past results, stuck pages, and what operators switch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import update

from tests.dashboard.site import ATTACK, narrow
from webcrawl.alarms.stuck import StuckPage, StuckPages
from webcrawl.jobs.records import IterationState, Job, JobState
from webcrawl.jobs.store import JobStore
from webcrawl.jobs.tables import iterations

NOW = datetime.now(UTC).replace(microsecond=0)
MORNING = {
    "name": "morning",
    "cron": "0 6 * * *",
    "timezone": "Europe/Paris",
    "spider": "broad",
    "owner": ATTACK,
}
HOSTILE_URL = f"https://a.test/{ATTACK}"


def store_jobs(data_dir: Path) -> JobStore:
    """A job with a finished iteration, a failed one, and one that waits."""
    store = JobStore(f"sqlite:///{data_dir}/metadata.db")
    store.apply([MORNING, {"name": "never", "cron": "0 0 1 1 *", "spider": "broad", "state": "PAUSED"}], NOW)
    for number, (state, reason) in enumerate(
        [(IterationState.FINISHED, None), (IterationState.FAILED, ATTACK)], 1
    ):
        one = store.run("morning", NOW - timedelta(days=3 - number))
        values = {"state": state, "reason": reason, "found": 100, "processed": 90, "stuck": 3}
        values |= {"started": one.due, "ended": one.due + timedelta(minutes=2), "data_dir": str(data_dir)}
        statement = update(iterations).where(iterations.c.id == one.id).values(values)
        store.database.write(lambda connection, statement=statement: connection.execute(statement))
    first = store.iterations("morning")[-1]
    with StuckPages(f"sqlite:///{data_dir}/metadata.db") as stuck:
        stuck.add([StuckPage(first.crawl, HOSTILE_URL, "DOCUMENT", ATTACK, NOW, NOW)])
    return store


def test_jobs_show_their_past_and_obey(
    start_dashboard: Callable[..., Any],
    open_page: Callable[..., Any],
    check_accessible: Callable[[Any], None],
    tmp_path: Path,
    redis_url: str,
) -> None:
    (tmp_path / "data").mkdir()
    dashboard = start_dashboard(REDIS_URL=redis_url)
    page = open_page("/jobs", dashboard.url)
    assert "No job yet" in page.locator("main").inner_text()
    check_accessible(page)
    store = store_jobs(tmp_path / "data")
    page.reload()
    card = page.locator("article", has=page.get_by_role("heading", name="morning"))
    assert "0 6 * * *" in card.inner_text() and "Europe/Paris" in card.inner_text()
    assert card.locator(".strip a").count() == 2

    def job() -> Job:
        return store.job("morning")

    card.get_by_role("button", name="Run now").click()
    assert store.iterations("morning")[0].state == IterationState.WAITING
    assert "Iteration 3 waiting" in card.inner_text()
    number = store.iterations("morning")[0].id
    elsewhere = (
        update(iterations).where(iterations.c.id == number).values(data_dir="/my data/3", machine="m2")
    )
    store.database.write(lambda connection: connection.execute(elsewhere))
    card.get_by_text("scrapy dashboard --port 0 -s 'DATA_DIR=/my data/3' on m2").wait_for()
    card.get_by_role("button", name="Run now").click()
    assert "waits already" in page.locator("main").inner_text()
    page.goto(f"{dashboard.url}/jobs")
    card.get_by_role("button", name="Pause").click()
    assert job().state == JobState.PAUSED
    card.get_by_role("button", name="Switch on").click()
    assert job().state == JobState.ON
    page.on("dialog", lambda dialog: dialog.accept())
    card.get_by_role("button", name="Off").click()
    assert job().state == JobState.OFF and store.iterations("morning")[0].state == IterationState.STOPPED

    missing = open_page("/jobs/evening", dashboard.url)
    assert (
        missing.locator("main")
        .inner_text()
        .startswith("Not found\n\nthere is no job 'evening'; there are: morning")
    )
    page.get_by_role("link", name="morning", exact=True).click()
    page.locator("#iteration-3").wait_for()
    narrow(page)
    page.locator("tbody tr").nth(2).wait_for()
    assert page.locator("tbody tr").count() == 3 and ATTACK in page.locator("tbody").inner_text()
    store.set_state("morning", JobState.ON, NOW)
    page.get_by_role("button", name="Pause").wait_for()
    page.locator("#iteration-1").get_by_role("link", name="3", exact=True).click()
    assert HOSTILE_URL in page.locator("tbody th").inner_text()
    store.close()
