"""A job whose crawls, pages and rows are in stores that all iterations share."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scrapy.settings import Settings

from webcrawl.documents.page import Page
from webcrawl.frontier import Candidate
from webcrawl.jobs.claims import IterationClaims
from webcrawl.jobs.crawls import JobCrawls
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.records import Iteration, IterationState
from webcrawl.jobs.retention import Retention
from webcrawl.jobs.store import JobStore
from webcrawl.jobs.sweeper import Sweeper
from webcrawl.jobs.telling import Telling
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.objects.store import open_store

NOW = datetime(2026, 3, 1, 6, 0, tzinfo=UTC)
URL = "http://127.0.1.1:8099/"


class Upkeep:
    """A job in a project whose crawls, pages and rows are in stores that all iterations share."""

    parts = {"SPIDER_MODULES": ["spiders"], "ADDONS": {"webcrawl.addon.WebcrawlAddon": 100}}
    """The project's other settings."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.folder = folder
        self.values = {
            "DATA_DIR": str(folder / "data"),
            "REDIS_URL": redis_url,
            "STORE_URI": (folder / "pages").as_uri(),
            "METADATA_URI": f"sqlite:///{folder}/metadata.db",
        }
        self.crawls = self.again()
        self.store = JobStore(self.values["METADATA_URI"])
        self.claims = IterationClaims(self.store, shared_engine=True)
        self.retention = Retention(self.store, self.crawls, self.claims.machine)
        telling = Telling(self.store, self.values["METADATA_URI"], self.crawls, self.claims.machine)
        self.sweeper = Sweeper(self.crawls, self.retention, telling)

    def again(self) -> JobCrawls:
        """The crawls as another process sees them."""
        return JobCrawls(Settings({**self.values, **self.parts}))

    def job(self, **more: Any) -> Definition:
        values = {"name": "news", "cron": "0 6 * * *", "spider": "broad", **more}
        self.store.apply([values], NOW)
        return Definition.of(values)

    def iteration(
        self, definition: Definition, started: datetime, *, ended: datetime | None, reason: str = "finished"
    ) -> Iteration:
        """An iteration with a crawl, a page, a row, and a folder."""
        made = self.store.run("news", started)
        one = self.claims.take(made, str(self.crawls.folder(made)), started)
        assert one is not None and one.data_dir is not None
        asyncio.run(self.begin(definition, one))
        folder = Path(one.data_dir)
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text("{}")
        open_store(f"{self.values['STORE_URI']}/{one.crawl}", "STORE_URI").put("a.warc.gz", b"page")
        page = Page(url=f"{URL}{one.number}", host=URL[:-1], fetched_at=started, status=200)
        with Metadata(self.values["METADATA_URI"]) as metadata:
            metadata.upsert([{**page.row(), "crawl": one.crawl}])
        return one if ended is None else self.claims.end(one, IterationState.FINISHED, reason, None, ended)

    async def begin(self, definition: Definition, one: Iteration) -> None:
        async with self.crawls.connected(definition, one) as session:
            await session.connection.crawl.begin()
            await session.connection.frontier.add([Candidate(URL[:-1], "/", 1)])

    def rows(self) -> list[str]:
        with closing(sqlite3.connect(self.folder / "metadata.db")) as database:
            return [crawl for (crawl,) in database.execute("SELECT crawl FROM pages ORDER BY crawl")]

    def places(self) -> list[str]:
        """The crawls whose folders and pages are there."""
        folders = [path.name for path in self.folder.glob("data/jobs/news/*")]
        return sorted([*folders, *(path.name.removeprefix("news-") for path in self.folder.glob("pages/*"))])
