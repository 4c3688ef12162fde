"""Jobs and iterations in the metadata database, as operators change them."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, inspect

from webcrawl.errors import StoreError
from webcrawl.jobs.records import IterationCounts, IterationState, JobState
from webcrawl.jobs.store import JobStore, add_iteration
from webcrawl.jobs.tables import iterations
from webcrawl.stores.metadata import Metadata

NOW = datetime(2026, 3, 1, 6, 0, 5, 123456, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def news(**more: Any) -> dict[str, Any]:
    return {"name": "news", "cron": "0 6 * * *", "spider": "broad", "owner": "desk", **more}


def test_a_new_job_is_listed(store: JobStore) -> None:
    definition = news(settings={"DOWNLOAD_DELAY": 1.5}, seeds=["https://a.example/"])
    assert store.apply([definition], NOW) == {"news": list(definition)}
    (job,) = store.jobs()
    assert (job.name, job.definition, job.state) == ("news", definition, JobState.ON)
    assert (job.owner, job.applied, job.decided) == ("desk", NOW, NOW)
    assert store.job("news") == job


def test_the_same_definition_changes_nothing(store: JobStore) -> None:
    store.apply([news()], NOW)
    before = store.jobs()
    assert store.changes([news()]) == {}
    assert store.apply([news()], LATER) == {}
    assert store.jobs() == before


def test_what_apply_would_change_is_told_and_not_done(store: JobStore) -> None:
    store.apply([news()], NOW)
    before = store.jobs()
    changed = [news(cron="0 7 * * *", owner=None), news(name="other")]
    assert store.changes(changed) == {"news": ["cron", "owner"], "other": list(news())}
    assert store.jobs() == before


def test_a_new_schedule_counts_from_now_and_another_setting_does_not(store: JobStore) -> None:
    store.apply([news()], NOW)
    store.apply([news(workers=2)], LATER)
    assert (store.job("news").decided, store.job("news").applied) == (NOW, LATER)
    store.apply([news(workers=2, cron="0 7 * * *")], LATER)
    assert store.job("news").decided == LATER


def test_a_state_in_a_file_counts_when_it_changes(store: JobStore) -> None:
    """So a job that an operator has paused is not resumed by the next `apply` of the same file."""
    store.apply([news(state="ON")], NOW)
    store.set_state("news", JobState.PAUSED, NOW)
    store.apply([news(state="ON", workers=2)], LATER)
    assert store.job("news").state == JobState.PAUSED
    store.apply([news(state="OFF", workers=2)], LATER)
    assert store.job("news").state == JobState.OFF


def test_a_resumed_job_has_missed_nothing(store: JobStore) -> None:
    store.apply([news()], NOW)
    store.set_state("news", JobState.PAUSED, NOW)
    assert store.job("news").decided == NOW
    store.set_state("news", JobState.ON, LATER)
    assert store.job("news").decided == LATER


def test_a_run_by_hand_is_an_iteration(store: JobStore) -> None:
    store.apply([news()], NOW)
    made = store.run("news", NOW)
    assert (made.job, made.number, made.state, made.due) == (
        "news",
        1,
        IterationState.WAITING,
        NOW.replace(microsecond=0),
    )
    assert made.crawl == "news-20260301T060005Z"
    assert (made.counts, made.started, made.ended, made.holder) == (IterationCounts(), None, None, None)
    assert store.iterations() == store.iterations("news") == [made] == [store.iteration(made.id)]
    with pytest.raises(StoreError, match="an iteration of job 'news' waits already"):
        store.run("news", LATER)
    assert store.iteration(made.id + 1) is None


def test_off_ends_what_waits(store: JobStore) -> None:
    store.apply([news()], NOW)
    made = store.run("news", NOW)
    store.set_state("news", JobState.OFF, LATER)
    (after,) = store.iterations()
    assert (after.id, after.state, after.reason, after.ended) == (
        made.id,
        IterationState.STOPPED,
        "the job was switched off",
        LATER,
    )
    # an iteration of the same second has a time of its own, and the next number
    again = store.run("news", NOW)
    assert (again.number, again.due - made.due) == (2, timedelta(seconds=1))
    assert store.iterations(limit=1) == [again]


def test_the_latest_iteration_is_the_latest_that_has_begun(store: JobStore) -> None:
    store.apply([news()], NOW)
    first = store.run("news", NOW)
    assert store.numbered("news", None) == first

    def begin_and_fire(connection: Connection) -> None:
        begun = {"started": NOW, "state": IterationState.RUNNING}
        connection.execute(iterations.update().values(begun).where(iterations.c.id == first.id))
        add_iteration(connection, "news", LATER, LATER, skipped="another one runs")

    store.database.write(begin_and_fire)
    assert store.numbered("news", None).id == first.id
    assert store.numbered("news", 2).state == IterationState.SKIPPED
    assert [one.id for one in store.active("news")] == [first.id]


def test_a_deleted_job_leaves_its_history_and_may_come_back(store: JobStore) -> None:
    store.apply([news()], NOW)
    made = store.run("news", NOW)
    assert store.delete("news", LATER).name == "news"
    assert store.jobs() == []
    (after,) = store.iterations("news")
    assert (after.id, after.state, after.reason) == (made.id, IterationState.STOPPED, "the job was deleted")
    store.apply([news()], LATER)
    again = store.run("news", NOW)
    assert (again.number, again.due - made.due) == (2, timedelta(seconds=1))
    with pytest.raises(StoreError, match="iteration 2 of news has not ended"):
        store.forget("news")
    store.set_state("news", JobState.OFF, LATER)
    assert store.forget("news") == 2
    assert store.iterations("news") == []


def test_an_unknown_job_is_named_with_the_others(store: JobStore) -> None:
    with pytest.raises(StoreError, match="there is no job 'x'; none was applied"):
        store.run("x", NOW)
    store.apply([news(), news(name="other")], NOW)
    for change in (store.job, lambda name: store.set_state(name, JobState.ON, NOW)):
        with pytest.raises(StoreError, match="there is no job 'x'; there are: news, other"):
            change("x")


def test_the_database_of_pages_has_both(store: JobStore, uri: str) -> None:
    store.apply([news()], NOW)
    with Metadata(uri) as metadata:
        assert metadata.count() == 0
    with JobStore(uri) as again:
        assert len(again.jobs()) == 1
        with again.database.reading() as connection:
            assert {"pages", "jobs", "iterations"} <= set(inspect(connection).get_table_names())


def test_tables_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/metadata.db"
    JobStore(uri).close()
    with sqlite3.connect(tmp_path / "metadata.db") as database:
        database.execute("INSERT INTO jobs_version VALUES (99)")
    with pytest.raises(StoreError, match=r"metadata\.db was written by a newer webcrawl: its schema is 99"):
        JobStore(uri)
