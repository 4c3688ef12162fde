"""Which iterations of a job its card shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection

from webcrawl.jobs.records import IterationState
from webcrawl.jobs.store import JobStore, add_iteration
from webcrawl.jobs.tables import iterations
from webcrawl.web.job_store import shown_jobs

NOW = datetime(2026, 3, 1, 6, tzinfo=UTC)


def test_the_running_iteration_is_shown_behind_many_later_firings(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/metadata.db"
    with JobStore(uri) as store:
        store.apply([{"name": "news", "cron": "* * * * *", "spider": "broad", "state": "ON"}], NOW)
        first = store.run("news", NOW)

        def begin_and_fire(connection: Connection) -> None:
            begun = {"started": NOW, "state": IterationState.RUNNING}
            connection.execute(iterations.update().values(begun).where(iterations.c.id == first.id))
            for minute in range(1, 40):
                due = NOW + timedelta(minutes=minute)
                add_iteration(connection, "news", due, due, skipped="another one runs")
            add_iteration(connection, "news", NOW + timedelta(hours=1), NOW)

        store.database.write(begin_and_fire)
    (shown,) = shown_jobs(uri)
    assert shown.current is not None and shown.current.id == first.id
    assert [one.number for one in shown.waiting] == [41]
    assert {one.state for one in shown.past} == {IterationState.SKIPPED}
