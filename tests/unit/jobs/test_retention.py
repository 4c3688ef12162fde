"""What retention deletes while jobs are wrong and crawls run."""

from __future__ import annotations

import socket
from datetime import timedelta

import pytest
from scrapy.settings import Settings

from tests.metadata import NOW
from webcrawl.jobs.claims import IterationClaims
from webcrawl.jobs.crawls import JobCrawls
from webcrawl.jobs.records import IterationState
from webcrawl.jobs.retention import Retention
from webcrawl.jobs.store import JobStore
from webcrawl.jobs.tables import jobs

PARTS = {"SPIDER_MODULES": ["spiders"], "ADDONS": {"webcrawl.addon.WebcrawlAddon": 100}}


def test_a_job_that_cannot_be_read_stops_no_retention(
    store: JobStore, caplog: pytest.LogCaptureFixture
) -> None:
    common = {"spider": "broad", "cron": "0 6 * * *", "keep": {"iterations": 1}}
    store.apply([{"name": name, **common} for name in ("news", "other")], NOW)
    claims = IterationClaims(store, shared_engine=True)
    for day in range(2):
        now = NOW + timedelta(days=day)
        for name in ("news", "other"):
            made = claims.take(store.run(name, now), None, now)
            assert made is not None
            claims.end(made, IterationState.FINISHED, "finished", None, now)
    wrong = jobs.update().where(jobs.c.name == "news").values(definition={"name": "news", "newer": 1})
    store.database.write(lambda connection: connection.execute(wrong))
    retention = Retention(store, JobCrawls(Settings(PARTS)), socket.gethostname())
    due = retention.due(NOW + timedelta(days=2))
    assert [(iteration.job, iteration.number) for _, iteration in due] == [("other", 1)]
    assert retention.untrimmed(NOW + timedelta(days=2)) == []
    assert "Nothing of job news is deleted" in caplog.text
