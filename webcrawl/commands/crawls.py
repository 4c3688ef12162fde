"""`scrapy crawls`: lists the crawls of an engine and of DATA_DIR."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import OpenedCrawlCommand, flag, table
from webcrawl.documents.values import counted, shown_time

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl
    from webcrawl.web.crawls import ListedCrawl

_NUMBERS = ("pages", "checked", "pages/s", "checks/s", "queued")


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
        from webcrawl.web.crawls import OwnEngines, crawls_of_engine, crawls_of_jobs, crawls_of_summaries
        from webcrawl.web.job_store import running_here

        crawls: list[ListedCrawl] = []
        if opened.has_engine:
            await opened.connection.connect()
            crawls += await crawls_of_engine(opened.connection)
        engines = OwnEngines(lambda: running_here(self.settings))
        try:
            crawls += await crawls_of_jobs(engines)
        finally:
            await engines.close()
        crawls += crawls_of_summaries(opened.stores.data_dir, {crawl.crawl for crawl in crawls})
        for line in _json(crawls) if opts.json else _table(crawls):
            print(line)
        print(f"{counted(len(crawls), 'crawl')}.", file=sys.stderr)


def _json(crawls: list[ListedCrawl]) -> list[str]:
    return [json.dumps(crawl._asdict(), default=datetime.isoformat) for crawl in crawls]


def _table(crawls: list[ListedCrawl]) -> list[str]:
    if not crawls:
        return []
    rows = [_cells(crawl) for crawl in crawls]
    names = [name.replace("_per_second", "/s") for name in crawls[0]._fields]
    return list(table(names, rows, right=_NUMBERS))


def _cells(crawl: ListedCrawl) -> list[Any]:
    from webcrawl.crawler.report.summary_text import NOT_NOW, REASONS

    started, ended = (shown_time(time) if time else "" for time in (crawl.started, crawl.ended))
    how = REASONS.get(crawl.how, crawl.how.replace("_", " ")) if crawl.how else ""
    if crawl.how == "finished" and crawl.queued:
        how = NOT_NOW
    numbers = [f"{number:,}" for number in (crawl.pages, crawl.checked)]
    speeds = [
        "" if speed is None else f"{speed:.1f}" for speed in (crawl.pages_per_second, crawl.checks_per_second)
    ]
    return [crawl.crawl, crawl.state, *numbers, *speeds, f"{crawl.queued:,}", started, ended, how]
