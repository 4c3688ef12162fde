"""`scrapy crawls`: lists the crawls of an engine and of DATA_DIR."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import OpenedCrawlCommand, flag, table
from webcrawl.documents.values import counted, shown_time

if TYPE_CHECKING:
    from webcrawl.frontier import Crawl
    from webcrawl.opened import Connection, OpenedCrawl
    from webcrawl.web.overview import Overview

_NUMBERS = ("pages", "queued")


class ListedCrawl(NamedTuple):
    """A crawl in the list. `state`: as docs/glossary.md says. `how`: why its last run ended, as in summary.json."""

    crawl: str
    state: str
    pages: int
    queued: int
    started: datetime | None
    ended: datetime | None
    how: str | None


class Command(OpenedCrawlCommand):
    """Reads the engine, running iterations of jobs on this machine, and the summaries of crawls that the engine no
    longer has."""

    takes_crawl = False
    needs_engine = False
    summary = "List all crawls with state, pages, queue and end"
    description = (
        "List the crawls of the engine and of DATA_DIR with state, pages, queue, and when and how each ended"
    )
    options = (flag("--json", "print JSON lines"),)

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        if args:
            raise UsageError("scrapy crawls has only options")
        crawls: list[ListedCrawl] = []
        if opened.has_engine:
            await opened.connection.connect()
            crawls += await _of_engine(opened.connection)
        crawls += await self._of_jobs()
        crawls += _of_summaries(opened.stores.data_dir, {crawl.crawl for crawl in crawls})
        for line in _json(crawls) if opts.json else _table(crawls):
            print(line)
        print(f"{counted(len(crawls), 'crawl')}.", file=sys.stderr)

    async def _of_jobs(self) -> list[ListedCrawl]:
        """Returns the running iterations on this machine that have engines of their own."""
        from webcrawl.web.crawls import OwnEngines
        from webcrawl.web.job_store import running_here
        from webcrawl.web.overview import overview

        engines, crawls = OwnEngines(lambda: running_here(self.settings)), []
        try:
            for opened in await engines.all():
                connection = opened.connection
                now = await overview(connection.crawl, connection.frontier)
                crawls.append(await _listed(connection.crawl, now))
        finally:
            await engines.close()
        return crawls


async def _of_engine(connection: Connection) -> list[ListedCrawl]:
    from webcrawl.web.overview import Overviews

    crawls = []
    for now in await Overviews(connection).all():
        connection.use(now.crawl)
        crawls.append(await _listed(connection.crawl, now))
    return crawls


async def _listed(crawl: Crawl, now: Overview) -> ListedCrawl:
    from webcrawl.frontier.crawl import Runs, last_end_and_time
    from webcrawl.frontier.history import History

    samples = await History(crawl.engine, crawl.keys).whole()
    run, (how, ended) = await Runs(crawl.engine, crawl.keys).latest(), await last_end_and_time(crawl)
    begun = min([sample.time for sample in samples[:1]] + ([run.began] if run else []), default=None)
    if now.is_alive:
        how = ended = None
    figures = now.figures
    return ListedCrawl(
        now.crawl, now.state, figures.pages, figures.queued + figures.leased, _time(begun), _time(ended), how
    )


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _of_summaries(data_dir: Path, known: Collection[str]) -> list[ListedCrawl]:
    """Returns the crawls that have a summary in the folder of results, but are not `known`."""
    crawls = []
    for path in sorted((data_dir / "summaries").glob("*.json")):
        if path.stem not in known:
            summary = json.loads(path.read_text())
            queued = summary["queued"] + summary["leased"]
            state = "stopped" if queued else "finished" if summary["seen_urls"] else "empty"
            ended = _time(path.stat().st_mtime)
            pages, how = summary["pages"], summary["finish_reason"]
            crawls.append(ListedCrawl(path.stem, state, pages, queued, None, ended, how))
    return crawls


def _json(crawls: list[ListedCrawl]) -> list[str]:
    return [json.dumps(crawl._asdict(), default=datetime.isoformat) for crawl in crawls]


def _table(crawls: list[ListedCrawl]) -> list[str]:
    rows = [_cells(crawl) for crawl in crawls]
    return list(table(ListedCrawl._fields, rows, right=_NUMBERS)) if rows else []


def _cells(crawl: ListedCrawl) -> list[Any]:
    from webcrawl.crawler.report.summary_text import REASONS

    started, ended = (shown_time(time) if time else "" for time in (crawl.started, crawl.ended))
    how = REASONS.get(crawl.how, crawl.how.replace("_", " ")) if crawl.how else ""
    return [crawl.crawl, crawl.state, f"{crawl.pages:,}", f"{crawl.queued:,}", started, ended, how]
