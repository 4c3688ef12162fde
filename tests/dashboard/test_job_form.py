"""Jobs that operators store and edit by the form: what it changes, what it keeps, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.dashboard.site import ATTACK, Dashboard, narrow
from tests.dashboard.test_start import Sender
from webcrawl.jobs.files import read_jobs
from webcrawl.jobs.records import JobState
from webcrawl.jobs.store import JobStore

Start = Callable[..., Dashboard]
SECRET = "mailto://me:secret@example.org"
KEPT = {
    "name": "morning",
    "cron": "0 6 * * *",
    "spider": "broad",
    "seeds": ["https://example.org/"],
    "state": "ON",
    "owner": ATTACK,
    "notify": [SECRET],
    "settings": {"REDIS_PARAMS": {"password": "secret"}, "DOWNLOAD_DELAY": 2, "LINKS": True},
    "arguments": {"password": "secret"},
    "workers": 2,
}


def test_a_job_of_the_form_is_stored(
    start_dashboard: Start,
    open_page: Callable[..., Any],
    check_accessible: Callable[[Any], None],
    tmp_path: Path,
) -> None:
    dashboard = start_dashboard()
    page = open_page("/jobs", dashboard.url)
    page.get_by_role("link", name="New job").click()
    page.get_by_label("URLs to start from").fill("example.org\n# not this\nhttps://example.org/a,b")
    page.get_by_label("Most pages", exact=True).fill("50")
    page.get_by_label("Time zone").fill("Europe/Paris")
    page.get_by_role("button", name="Check").click()
    page.get_by_role("link", name="a job needs a schedule").wait_for()
    page.get_by_label("Schedule", exact=True).fill("30 7 * * 1")
    page.get_by_label("Keep the last").fill("3")
    page.get_by_role("button", name="Check").click()
    page.get_by_role("heading", name="Store job example-org").wait_for()
    check_accessible(page)
    path = tmp_path / "job.yaml"
    path.write_text(page.get_by_role("region", name="YAML", exact=True).inner_text())
    page.get_by_role("button", name="Back to the form").click()
    assert page.get_by_label("Schedule", exact=True).input_value() == "30 7 * * 1"
    page.get_by_role("button", name="Check").click()
    page.get_by_role("button", name="Store the job").click()
    page.wait_for_url("**/jobs/example-org**")
    with JobStore(f"sqlite:///{tmp_path}/data/metadata.db") as store:
        stored = dict(store.job("example-org").definition)
    assert stored == read_jobs(path)[0].values
    assert stored["settings"] == {"CRAWL_MAX_PAGES": 50} and stored["keep"] == {"iterations": 3}
    assert stored["seeds"] == ["https://example.org/", "https://example.org/a,b"]
    status, html = Sender(dashboard.url).send("/start/save", seeds="example.org", cron="0 6 * * *")
    assert status == 422 and "there is a job 'example-org'" in html


def test_an_edited_job_keeps_what_the_form_does_not_show(
    start_dashboard: Start,
    open_page: Callable[..., Any],
    check_accessible: Callable[[Any], None],
    tmp_path: Path,
    redis_url: str,
) -> None:
    (tmp_path / "data").mkdir()
    store = JobStore(f"sqlite:///{tmp_path}/data/metadata.db")
    store.apply([KEPT], datetime.now(UTC))
    store.set_state("morning", JobState.PAUSED, datetime.now(UTC))
    dashboard = start_dashboard(REDIS_URL=redis_url)
    page = open_page("/jobs/morning", dashboard.url)
    page.get_by_role("link", name="Edit").click()
    assert page.get_by_label("Delay", exact=True).input_value() == "2"
    assert page.get_by_label("Store links").input_value() == "True"
    page.get_by_text("Only its file changes these").wait_for()
    check_accessible(page)
    narrow(page)
    page.get_by_label("Delay", exact=True).fill("5")
    page.get_by_label("Store links").select_option("")
    page.get_by_label("Schedule", exact=True).fill("0 7 * * *")
    page.get_by_role("button", name="Check").click()
    page.get_by_role("heading", name="Change job morning").wait_for()
    assert "secret" not in page.content()
    other = open_page("/start/jobs/morning", dashboard.url)
    page.get_by_role("button", name="Change the job").click()
    page.wait_for_url("**/jobs/morning**")
    job = store.job("morning")
    assert job.state == JobState.PAUSED
    settings = {"REDIS_PARAMS": {"password": "secret"}, "DOWNLOAD_DELAY": 5}
    changed = {"cron": "0 7 * * *", "state": "PAUSED", "settings": settings}
    assert dict(job.definition) == KEPT | changed

    other.get_by_role("button", name="Check").click()
    assert "changed meanwhile" in other.get_by_role("alert").inner_text()
    store.close()


def test_seeds_in_a_file_stay_there(start_dashboard: Start, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "seeds").write_text("https://example.org/secret\n")
    seeds = {"file": str(tmp_path / "seeds")}
    with JobStore(f"sqlite:///{tmp_path}/data/metadata.db") as store:
        store.apply([KEPT | {"seeds": seeds, "settings": {}}], datetime.now(UTC))
        dashboard = start_dashboard()
        page = Sender(dashboard.url, "/start/jobs/morning")
        version = page.value("version")
        assert "secret" not in page.html
        fields = {"job": "morning", "version": version, "cron": "0 8 * * *"}
        assert page.send("/start/save", **fields)[0] == 303
        assert store.job("morning").definition["seeds"] == seeds
        fields["version"] = Sender(dashboard.url, "/start/jobs/morning").value("version")
        assert page.send("/start/save", seeds="example.org", **fields)[0] == 303
        assert store.job("morning").definition["seeds"] == ["https://example.org/"]
