"""Writes the summary of a crawl: a text on stderr, and files in DATA_DIR for programs.

`summary.json` is that of the crawl that ended last, `summaries/<crawl>.json` that of each crawl in the folder.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.utils.project import inside_project

from webcrawl.config import StoreConfig, read
from webcrawl.config.passwords import without_password, without_secret_options
from webcrawl.crawler.displays import http_errors
from webcrawl.crawler.no_pages import NoPages
from webcrawl.crawler.result_commands import result_commands
from webcrawl.crawler.scheduling.unserializable import LOST
from webcrawl.crawler.session import Session
from webcrawl.crawler.written_feeds import WrittenFeeds
from webcrawl.documents.values import counted, size
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.frontier.ends import note_end
from webcrawl.frontier.figures import FEED, LOST_REQUESTS, CrawlFigures, figures

logger = logging.getLogger(__name__)

_MOST_WRITES = 3
"""Figures of a crawl that other workers continue never stop changing; the last worker to end writes last."""
_SHOWN_TYPES = 12
_NEVER_BEGAN = ("cannot_start", "no_seeds")
_NOTHING_LEFT = "Nothing was left to crawl. To start over, set SCHEDULER_FLUSH_ON_START=True. Earlier runs:"
_NONE_LOST: Mapping[str, int] = {}
_REASONS = {
    "finished": "finished: there is nothing left to crawl",
    "shutdown": "stopped",
    "stopped": "stopped by an operator",
    "start_error": "ended, but start() of the spider raised an exception, so start requests may be missing",
    "max_pages": "stopped at CRAWL_MAX_PAGES",
    "closespider_pagecount": "stopped at CLOSESPIDER_PAGECOUNT",
}


class Summary:
    """Extension that writes the figures of all workers and runs of the crawl when the spider is closed.

    A run that ends by itself without a page sets the exit status of `scrapy crawl` to 1, unless it had nothing to do.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._session = session
        self._no_pages = NoPages(crawler, session)
        self._feeds = WrittenFeeds(crawler)
        self._print = read(crawler.settings, "PROGRESS") != "off"

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        extension = cls(crawler, Session.of(crawler))
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    async def spider_opened(self) -> None:
        await self._no_pages.begin()

    async def spider_closed(self, spider: Spider, reason: str) -> None:
        if not self._session.connection.is_open or reason in _NEVER_BEGAN:
            return
        await self._feeds.close()
        try:
            await self._count()
            await note_end(self._session.connection.crawl, reason)
            now = await self._write(reason)
            why = await self._explain(now, reason)
        except UNAVAILABLE as error:
            print(f"Cannot write the summary: the engine is unavailable ({error}).", file=sys.stderr)
            return
        if self._print:
            received = self._crawler.stats.get_value("response_received_count")
            idle = self._session.joined.finished and not received
            shown = text(now, reason, self._places(now), idle=idle, lost=self._lost())
            print("\n".join([shown, *why]), file=sys.stderr, flush=True)
        elif why:
            logger.error("%s", "\n".join(why))

    def _places(self, now: CrawlFigures) -> str:
        """Where the results are, and in a project the commands for them."""
        stores, settings = self._session.stores, self._crawler.settings
        lines = [results(stores, now), *feeds(now.feeds, self._feeds.failed)]
        return "\n".join([*lines, *(result_commands(stores, now, settings) if inside_project() else ())])

    async def _explain(self, now: CrawlFigures, reason: str) -> list[str]:
        """Why no page was fetched, as lines; sets the exit status if that is an error."""
        if not self._no_pages.applies(now):
            return []
        stats = self._crawler.stats
        if reason == "finished" and not stats.get_value("exit_status"):
            stats.set_value("exit_status", 1)
        return self._no_pages.lines(now, await self._no_pages.reasons(now, reason))

    def _lost(self) -> dict[str, int]:
        """Callback -> requests that could not be stored and end with this process."""
        stats = self._crawler.stats.get_stats().items()
        return {name.removeprefix(LOST): number for name, number in stats if name.startswith(LOST)}

    async def _count(self) -> None:
        """Add to the totals what is known only now: feeds and lost requests."""
        before = (await self._figures()).feeds
        after = self._feeds.totals(before)
        counted = {f"{FEED}{name}": number - before.get(name, 0) for name, number in after.items()}
        counted |= {f"{LOST_REQUESTS}{callback}": number for callback, number in self._lost().items()}
        if counted:
            await self._session.connection.crawl.workers.leave(counted)

    async def _figures(self) -> CrawlFigures:
        return await figures(self._session.connection.frontier, self._session.connection.crawl)

    async def _write(self, reason: str) -> CrawlFigures:
        """Write the figures, and again if they changed meanwhile, because another worker may have ended."""
        folder, crawl = self._session.stores.data_dir, self._session.connection.keys.crawl
        now = await self._figures()
        for _ in range(_MOST_WRITES):
            summary = {"crawl": crawl, **now.as_dict(), "finish_reason": reason}
            for path in (folder / "summaries" / f"{crawl}.json", folder / "summary.json"):
                write_summary(path, summary)
            before, now = now, await self._figures()
            if now == before:
                break
        return now


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """Replace the file atomically, because several workers may write it, and others read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(summary, indent=2) + "\n")
    temporary.replace(path)


def results(stores: StoreConfig, now: CrawlFigures) -> str:
    """The places with results of the crawl: files in DATA_DIR, then stores elsewhere, without passwords."""
    files, elsewhere = ["summary.json"], []
    if now.archived and stores.pages == (stores.data_dir / "warc").resolve().as_uri():
        files.append("warc/")
    elif now.archived:
        elsewhere.append(without_password(stores.pages))
    if now.stored and stores.metadata == f"sqlite:///{(stores.data_dir / 'metadata.db').resolve()}":
        files.append("metadata.db")
    elif now.stored:
        # imported only here, because it takes 0.1 s
        from sqlalchemy.engine import make_url

        shown = make_url(stores.metadata).render_as_string(hide_password=True)
        elsewhere.append(without_secret_options(shown))
    return "; ".join([f"{stores.data_dir}: {', '.join(files)}", *elsewhere])


def feeds(feeds: Mapping[str, int], failed: int) -> list[str]:
    """A line for each feed, and one if files of this run could not be stored."""
    lines = [f"{name}: {counted(number, 'item')}" for name, number in feeds.items()]
    lines += [f"{counted(failed, 'file')} could not be stored: see the log"] if failed else []
    return [f"  {'' if number else 'feeds':<10}  {line}" for number, line in enumerate(lines)]


def text(
    now: CrawlFigures,
    reason: str,
    places: str,
    *,
    idle: bool = False,
    lost: Mapping[str, int] = _NONE_LOST,
    job: str = "",
) -> str:
    """The summary as text. `idle`: this run had nothing to do, so the figures are of earlier runs.

    `lost`: callback -> requests that ended with this process, although their placeholders are still queued.
    `job`: the job of which the crawl is an iteration.
    """
    statuses = ", ".join(f"{number:,} x {status}" for status, number in now.responses.items()) or "none"
    left = now.queued + now.leased
    dropped = f", {now.dropped:,} dropped" if now.dropped else ""
    speed = f" in {now.seconds:,.1f} s ({now.pages_per_second:,.1f}/s)"
    lines = [
        _NOTHING_LEFT if idle else f"Crawl {_REASONS.get(reason, reason)}.",
        f"  pages       {now.pages:,} from {counted(now.hosts, 'host')}{'' if idle else speed}",
        *([f"  resources   {now.resources:,}"] if now.resources else []),
        *_items(now.items),
        f"  responses   {statuses}; {size(now.bytes)}",
        *_types(now.types),
        f"  duplicates  {now.exact_duplicates:,} exact, {now.near_duplicates:,} near",
        f"  URLs        {now.seen_urls:,} seen, {left:,} queued, {counted(now.dead_letters, 'dead letter')}{dropped}",
        *([f"  rewritten   {counted(now.rewritten, 'URL')} by DUST rules"] if now.rewritten else []),
        *(
            [f"  lookups     {now.looked_up:,}, {now.cache_hit_ratio:.1%} in the cache"]
            if now.looked_up
            else []
        ),
        f"  left out    {now.robots_denied:,} by robots.txt, {now.addresses_refused:,} by the address guard",
        _errors(now),
        f"  results in  {places}",
    ]
    lines += _losses(lost)
    lines += _how_to_continue(now, max(0, left - sum(lost.values())), reason, job)
    return "\n".join(lines)


def _errors(now: CrawlFigures) -> str:
    """The line with answers and fetches that failed."""
    soft = f"{now.soft_404:,} soft 404, " if now.soft_404 else ""
    return (
        f"  errors      {counted(http_errors(now), 'answer')} 4xx or 5xx, {soft}"
        f"{counted(now.failed, 'fetch', 'fetches')} failed, {counted(now.retried, 'retry', 'retries')}, "
        f"{counted(now.unreachable, 'unreachable host')}"
    )


def _how_to_continue(now: CrawlFigures, left: int, reason: str, job: str) -> list[str]:
    """A line that says what becomes of the URLs that are left; none without any."""
    if now.paused:
        return ["It is paused: `scrapy resume` continues it."]
    if not left:
        return []
    if left <= now.parked:
        return ["All queued URLs are of hosts that are blocked or at their limit: see `scrapy host`."]
    if job:
        return _how_to_run_again(reason, job)
    if reason == "max_pages":
        return ["Run the same command with a higher CRAWL_MAX_PAGES to continue."]
    return ["Run the same command to continue."]


def _how_to_run_again(reason: str, job: str) -> list[str]:
    """The same for an iteration of a job, which only a scheduler continues."""
    begin = f"scrapy jobs run {job}"
    if reason == "max_pages":
        return [
            f"For more, set a higher CRAWL_MAX_PAGES in the settings of the job, and run it again: {begin}"
        ]
    if reason == "shutdown":
        ends = "the job was switched off or another iteration replaced this one"
        return [f"The next scheduler goes on with it, unless {ends}. A new iteration: {begin}"]
    return [f"A new iteration begins with the seeds: {begin}"]


def _items(items: Mapping[str, int]) -> list[str]:
    """A line with the items of each class; none without items."""
    if not items:
        return []
    each = sorted(items.items(), key=lambda pair: (-pair[1], pair[0]))
    named = ", ".join(f"{number:,} {name}" for name, number in each[:_SHOWN_TYPES])
    return [f"  items       {sum(items.values()):,} ({named}{', ...' if len(each) > _SHOWN_TYPES else ''})"]


def _losses(lost: Mapping[str, int]) -> list[str]:
    if not lost:
        return []
    each = ", ".join(f"{number:,} for {callback}" for callback, number in lost.items())
    return [
        f"Lost with this process: requests that cannot be stored ({each}). The next run makes them dead letters; "
        "the log says what they carry."
    ]


def _types(types: dict[str, dict[str, int]]) -> list[str]:
    """A line for each of the most frequent types; none if all pages are HTML without errors."""
    if types.keys() <= {"text/html"} and not any(one["errors"] for one in types.values()):
        return []
    shown = list(types.items())[:_SHOWN_TYPES]
    width = max(len(name) for name, _ in shown)
    lines = [
        f"{name:<{width}}  {one['pages']:>9,}  {size(one['bytes']):>9}"
        + (f"  {one['errors']:,} not readable" if one["errors"] else "")
        for name, one in shown
    ]
    if len(types) > len(shown):
        lines.append(f"and {len(types) - len(shown)} more: see summary.json")
    return [f"  {'' if number else 'types':<10}  {line}" for number, line in enumerate(lines)]
