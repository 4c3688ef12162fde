"""The records of an iteration: of all states, while its crawl runs and afterwards, as many as it counts."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
from scrapy.settings import Settings

from tests.crawls import NO_NAMES, Crawl, scrapy, until
from tests.web import LocalWeb, Reply
from webcrawl.alarms.stuck import StuckPages
from webcrawl.jobs.claims import IterationClaims
from webcrawl.jobs.crawls import JobCrawls
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.listed_records import record_sources
from webcrawl.jobs.records import Iteration, IterationCounts, IterationState
from webcrawl.jobs.store import JobStore
from webcrawl.jobs.url_records import URLRecord, URLRecords, record_of
from webcrawl.jobs.watching import Watching

SITE = "127.0.1.1"
PARTS = {"SPIDER_MODULES": ["tests.crawl.hanging_spider"], "ADDONS": {"webcrawl.addon.WebcrawlAddon": 100}}
STATES = {
    "/": "PROCESSED fetched",
    "/good": "PROCESSED fetched",
    "/moved": "PROCESSED redirected",
    "/private": "PROCESSED failed",
    "/missing": "PROCESSED missing",
    "/broken.pdf": "STUCK DOCUMENT",
    "/gone": "STUCK DEAD_LETTER",
    "/pipeline": "CRAWLED leased",
    "/slow": "QUEUED leased",
    "/later": "QUEUED leased",
}


def local_site(local_web: Callable[..., LocalWeb]) -> LocalWeb:
    """Pages of all kinds; after /slow nothing more is answered."""
    web = local_web(SITE)
    web.put(SITE, "/robots.txt", "User-agent: *\nDisallow: /private")
    web.put(SITE, "/", "".join(f'<a href="{path}">{path}</a>' for path in STATES))
    web.put(SITE, "/good", "a good page")
    web.put(SITE, "/moved", Reply(status=302, headers={"Location": "/missing"}))
    web.put(SITE, "/broken.pdf", Reply("%PDF-1.4 broken", headers={"Content-Type": "application/pdf"}))
    web.put(SITE, "/gone", Reply(abort=True))
    web.put(SITE, "/pipeline", "a page that is never stored")
    web.put(SITE, "/slow", Reply("slow", delay=600))
    return web


class World:
    """A job with an iteration whose crawl a test runs."""

    def __init__(self, folder: Path, seed: str) -> None:
        self.values: dict[str, Any] = {"DATA_DIR": str(folder / "data")}
        (folder / "data").mkdir()
        self.crawls = JobCrawls(Settings({**self.values, **PARTS}))
        self.store = JobStore(f"sqlite:///{folder}/data/metadata.db")
        self.begun = datetime.now(UTC) - timedelta(seconds=1)
        values = {"name": "news", "cron": "0 6 * * *", "spider": "hanging", "seeds": [seed]}
        self.store.apply([values], self.begun)
        self.definition = Definition.of(values)
        self.claims = IterationClaims(self.store, shared_engine=False)
        made = self.store.run("news", self.begun)
        one = self.claims.take(made, str(self.crawls.folder(made)), self.begun)
        assert one is not None
        self.iteration = one

    def records(self) -> dict[str, URLRecord]:
        """URL -> record, each once."""

        async def read() -> list[URLRecord]:
            async with record_sources(self.crawls, self.definition, self.iteration, gethostname()) as sources:
                return [record async for some in URLRecords(sources).batches() for record in some]

        found = asyncio.run(read())
        by_url = {record.url: record for record in found}
        assert len(by_url) == len(found)
        return by_url

    def record(self, url: str) -> URLRecord | None:
        """The record of one URL."""

        async def read() -> URLRecord | None:
            async with record_sources(self.crawls, self.definition, self.iteration, gethostname()) as sources:
                return (await record_of(sources, url))[0]

        return asyncio.run(read())

    def counts(self) -> IterationCounts:
        look = self.crawls.look(self.definition, self.iteration, Watching("test"), ended=False)
        return asyncio.run(look).counts

    def end(self) -> Iteration:
        return self.claims.end(
            self.iteration, IterationState.STOPPED, "a test", self.counts(), datetime.now(UTC)
        )

    def listed(self, *words: str) -> list[dict[str, Any]]:
        done = scrapy("jobs", "records", "news", "--json", *words, *self.options())
        self.said = done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def options(self) -> list[str]:
        values = {**self.values, "SPIDER_MODULES": PARTS["SPIDER_MODULES"][0]}
        return [word for name, value in values.items() for word in ("-s", f"{name}={value}")]


def shown(records: dict[str, URLRecord], web: LocalWeb) -> dict[str, str]:
    return {
        url.removeprefix(web.host(SITE)): f"{record.state} {record.detail}" for url, record in records.items()
    }


def test_each_url_has_one_record_and_they_add_up(
    local_web: Callable[..., LocalWeb], start_crawl: Callable[..., Crawl], tmp_path: Path
) -> None:
    web = local_site(local_web)
    world = World(tmp_path, web.url(SITE))
    one = world.iteration
    crawl = start_crawl(
        "hanging",
        [web.url(SITE)],
        arguments={"scope": "host"},
        data_dir=Path(str(one.data_dir)),
        CRAWL_ID=one.crawl,
        SPIDER_MODULES=PARTS["SPIDER_MODULES"][0],
        ITEM_PIPELINES='{"tests.crawl.hanging_spider.HangingPipeline": 10}',
        DOWNLOAD_DELAY=0,
        FRONTIER_MAX_ATTEMPTS=1,
        DNS_SERVERS=NO_NAMES,
    )
    until(lambda: "/slow" in web.paths(SITE), crawl)
    until(lambda: shown(world.records(), web) == STATES, crawl)
    records, counts = world.records(), world.counts()
    states = Counter(record.state for record in records.values())
    assert counts.found == states.total() == len(STATES)
    assert (counts.queued, counts.stuck) == (states["QUEUED"] + states["CRAWLED"], states["STUCK"]) == (3, 2)
    pages = [one for one in records.values() if one.detail in ("fetched", "DOCUMENT")]
    assert counts.processed == len(pages) == 3
    for record in records.values():
        assert record.created is not None and world.begun <= record.created <= datetime.now(UTC)
        assert (record.updated is None) == (record.state == "QUEUED")
        assert record.updated is None or record.created <= record.updated
    # the page told of all others at once
    created = {record.created for url, record in records.items() if url != web.url(SITE)}
    assert len(created) == 1, [one for one in records.values() if one.created.microsecond % 10000]
    check_afterwards(world, web, crawl)


def check_afterwards(world: World, web: LocalWeb, crawl: Crawl) -> None:
    """The same by the command, when the worker was killed and the iteration has ended."""
    crawl.kill()
    one = world.end()
    told = datetime(2026, 3, 1, tzinfo=UTC)
    with StuckPages(f"sqlite:///{one.data_dir}/metadata.db") as stuck:
        stuck.mark_notified(one.crawl, "DOCUMENT", told, datetime.now(UTC))
    listed = {row["url"].removeprefix(web.host(SITE)): row for row in world.listed()}
    assert listed.keys() == STATES.keys()
    # a worker counts as alive for a while after its death
    assert {
        f"{listed[path]['state']} {listed[path]['detail']}" for path in STATES if path != "/pipeline"
    } == {state for path, state in STATES.items() if path != "/pipeline"}
    assert listed["/broken.pdf"]["notified"] == told.isoformat() and "notified" not in listed["/gone"]
    assert listed["/later"].keys() == {"url", "state", "detail", "created"}
    assert world.said.startswith("10 records: ")
    only = world.listed("--state", "STUCK", "--iteration", "1")
    assert {row["url"] for row in only} == {web.url(SITE, "/gone"), web.url(SITE, "/broken.pdf")}
    assert world.listed("--url", web.url(SITE, "/gone")) == [listed["/gone"]]
    records = world.records()
    for url, record in records.items():
        assert world.record(url) == record
    done = scrapy("jobs", "records", "news", "--url", web.url(SITE, "/nowhere"), *world.options(), status=1)
    assert done.stderr.startswith(f"scrapy jobs: crawl '{one.crawl}' has no record of http://"), done.stderr


def test_an_iteration_without_records_says_why(tmp_path: Path) -> None:
    world = World(tmp_path, "https://a.example/")

    def why(**changed: Any) -> str:
        world.iteration = replace(world.iteration, **changed)
        with pytest.raises(Exception, match="job 'news'") as raised:
            world.records()
        return str(raised.value)

    assert world.records() == {}
    assert why(machine="m2").endswith("are on m2: run this command there")
    assert "were deleted at 2026-03-01 00:00 UTC" in why(deleted=datetime(2026, 3, 1, tzinfo=UTC))
    assert why(started=None).endswith("it is RUNNING, and has not begun")
