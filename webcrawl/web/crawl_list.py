"""The list of crawls: those of an engine, of running iterations, and those that only a summary is left of."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from webcrawl.engine.client import UNAVAILABLE
from webcrawl.frontier import Crawl
from webcrawl.frontier.crawl import Runs, last_end_and_time
from webcrawl.frontier.history import History
from webcrawl.opened import Connection
from webcrawl.web.crawls import OwnEngines
from webcrawl.web.overview import Overview, Overviews, overview


class ListedCrawl(NamedTuple):
    """A crawl in the list. `state`: as docs/glossary.md says. `how`: why its last run ended, as in summary.json.

    `checked`: the repeated visits of known pages, as in `CrawlFigures.checked`. `pages_per_second` and
    `checks_per_second`: over the last half minute; None without a worker.
    """

    crawl: str
    state: str
    pages: int
    checked: int
    pages_per_second: float | None
    checks_per_second: float | None
    queued: int
    started: datetime | None
    ended: datetime | None
    how: str | None


async def crawls_of_engine(connection: Connection) -> list[ListedCrawl]:
    """Returns the crawls of a connected engine."""
    return [
        await _listed(replace(connection.crawl, keys=replace(connection.keys, crawl=now.crawl)), now)
        for now in await Overviews(connection).all()
    ]


async def crawls_of_jobs(engines: OwnEngines) -> list[ListedCrawl]:
    """Returns the running iterations on this machine that have engines of their own."""
    crawls = []
    for opened in await engines.all():
        connection = opened.connection
        with suppress(*UNAVAILABLE):  # the crawl and its engine have just ended
            now = await overview(connection.crawl, connection.frontier)
            crawls.append(await _listed(connection.crawl, now))
    return crawls


def crawls_of_summaries(data_dir: Path, known: Collection[str]) -> list[ListedCrawl]:
    """Returns the crawls that have a summary in the folder of results, but are not `known`."""
    crawls = []
    for path in sorted((data_dir / "summaries").glob("*.json")):
        if path.stem not in known:
            summary = json.loads(path.read_text())
            queued = summary["queued"] + summary["leased"]
            is_left = queued > summary.get("parked", 0)
            state = "stopped" if is_left else "finished" if summary["seen_urls"] else "empty"
            ended = _time(path.stat().st_mtime)
            pages, how = summary["pages"], summary["finish_reason"]
            checked = sum(summary.get("revisits", {}).values()) or summary.get("unchanged", 0)
            crawls.append(ListedCrawl(path.stem, state, pages, checked, None, None, queued, None, ended, how))
    return crawls


async def _listed(crawl: Crawl, now: Overview) -> ListedCrawl:
    samples = await History(crawl.engine, crawl.keys).whole()
    run, (how, ended) = await Runs(crawl.engine, crawl.keys).latest(), await last_end_and_time(crawl)
    begun = min([sample.time for sample in samples[:1]] + ([run.began] if run else []), default=None)
    speed, checks = (round(now.speed, 2), round(now.checks, 2)) if now.is_alive else (None, None)
    if now.is_alive:
        how = ended = None
    figures = now.figures
    queued = figures.queued + figures.leased
    return ListedCrawl(
        now.crawl,
        now.state,
        figures.pages,
        figures.checked,
        speed,
        checks,
        queued,
        _time(begun),
        _time(ended),
        how,
    )


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
