"""What retention deletes while jobs are wrong and crawls run."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from scrapy.settings import Settings
from sqlalchemy import Connection, select

from tests.metadata import NOW, row
from webcrawl.jobs.claims import IterationClaims
from webcrawl.jobs.crawls import JobCrawls
from webcrawl.jobs.records import IterationState
from webcrawl.jobs.retention import Retention, _delete_rows
from webcrawl.jobs.store import JobStore
from webcrawl.jobs.tables import jobs
from webcrawl.stores.columns import fetches, pages
from webcrawl.stores.database import Database
from webcrawl.stores.metadata import Metadata

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


def test_rows_that_a_running_crawl_has_stored_again_stay(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    urls = [f"http://a.example/{number}" for number in range(3)]
    with Metadata(uri) as metadata:
        metadata.upsert([row(url, crawl="news-1") for url in urls])
        write = Database.write

        def late(self: Database, work: Callable[[Connection], Any]) -> Any:
            """Deletes after a crawl has stored a page that was just read."""
            monkeypatch.setattr(Database, "write", write)
            metadata.upsert([row(urls[1], crawl="news-2", fetched_at=NOW + timedelta(days=1))])
            return self.write(work)

        monkeypatch.setattr(Database, "write", late)
        _delete_rows(uri, pages.c.crawl == "news-1")
        kept = metadata.get(urls[1])
        assert kept is not None and kept["crawl"] == "news-2"
        assert [metadata.get(url) for url in (urls[0], urls[2])] == [None, None]
        with metadata.database.reading() as connection:
            earlier = connection.execute(select(fetches.c.url)).scalars().all()
        assert earlier == [urls[1]]
