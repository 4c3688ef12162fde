"""Writes the summary of a crawl: a text on stderr, and files in DATA_DIR for programs.

`summary.json` has the crawl that ended last, `summaries/<crawl>.json` each crawl of the folder.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.utils.project import inside_project

from webcrawl.config import read
from webcrawl.config.passwords import without_password
from webcrawl.config.program import as_typed
from webcrawl.crawler.report.displays import name_among_several, note_crawl
from webcrawl.crawler.report.summary_text import feed_lines, result_commands, result_locations, summary_text
from webcrawl.crawler.scheduling.start_urls import is_fed
from webcrawl.crawler.scheduling.unserializable import LOST
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.crawler.start_outcomes import QUEUED
from webcrawl.documents.values import without_class
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.frontier.crawl import note_end
from webcrawl.frontier.figures import FEED, LOST_REQUESTS, CrawlFigures, figures
from webcrawl.urls.canonical import split

logger = logging.getLogger(__name__)

_MOST_WRITES = 3
"""The most writes, because other workers may change the figures all the time; the last worker to end writes last."""
_NEVER_BEGAN = ("cannot_start", "no_seeds")


class Summary(SessionComponent):
    """Extension that writes the figures of all workers and runs of the crawl when the spider is closed.

    A run that ends by itself without a page sets the exit status of `scrapy crawl` to 1, unless it had nothing to do.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._no_pages = NoPages(crawler, session)
        self._feeds = WrittenFeeds(crawler)
        note_crawl(session.connection.keys.crawl)
        self._print = read(crawler.settings, "PROGRESS") != "off"
        crawler.signals.connect(self.spider_opened, signals.spider_opened)
        crawler.signals.connect(self.spider_closed, signals.spider_closed)

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
            name = name_among_several(self._session.connection.keys.crawl)
            where = await self._locations(now)
            shown = summary_text(now, reason, where, idle=idle, lost=self._lost(), crawl=name)
            print(as_typed("\n".join([shown, *why])), file=sys.stderr, flush=True)
        elif why:
            logger.error("%s", as_typed("\n".join(why)))

    async def _locations(self, now: CrawlFigures) -> str:
        """Returns where the results are, and in a project the commands for them."""
        connection = self._session.connection
        stores, settings = self._session.stores, self._crawler.settings
        own = getattr(self._crawler.spider, "own_results", None)
        where = result_locations(stores, now) + (f"; {own}" if own else "")
        lines = [where, *feed_lines(now.feeds, self._feeds.failed)]
        if inside_project():
            crawl = connection.keys.crawl if len(await connection.crawls()) > 1 else ""
            lines += result_commands(stores, now, settings, crawl)
        return "\n".join(lines)

    async def _explain(self, now: CrawlFigures, reason: str) -> list[str]:
        """Returns lines that say why no page was fetched; sets the exit status if that is an error."""
        if not self._no_pages.applies(now):
            return []
        stats = self._crawler.stats
        if reason == "finished" and not stats.get_value("exit_status"):
            stats.set_value("exit_status", 1)
        return self._no_pages.lines(now, await self._no_pages.reasons(now, reason))

    def _lost(self) -> dict[str, int]:
        """Returns callback -> requests that could not be stored and end with this process."""
        stats = self._crawler.stats.get_stats().items()
        return {name.removeprefix(LOST): number for name, number in stats if name.startswith(LOST)}

    async def _count(self) -> None:
        """Adds the feeds and the lost requests, known only now, to the totals."""
        before = (await self._figures()).feeds
        after = self._feeds.totals(before)
        counted = {f"{FEED}{name}": number - before.get(name, 0) for name, number in after.items()}
        counted |= {f"{LOST_REQUESTS}{callback}": number for callback, number in self._lost().items()}
        if counted:
            await self._session.connection.crawl.workers.leave(counted)

    async def _figures(self) -> CrawlFigures:
        return await figures(self._session.connection.frontier, self._session.connection.crawl)

    async def _write(self, reason: str) -> CrawlFigures:
        """Writes the figures, and again if they changed meanwhile, because another worker may have ended."""
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
    """Replaces the file atomically, because several workers may write it while others read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(summary, indent=2) + "\n")
    temporary.replace(path)


_MOST_SHOWN = 10
_KNOWN = "already crawled before, or by another worker"
_PARKED = "its host is blocked or at its limit: see `scrapy host`"
_WAITING = "not fetched yet"


class NoPages:
    """Distinguishes a run that fetched no page from a run that had nothing to do."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._session = session
        self._before = 0
        """The number of pages of earlier runs, if no other worker was crawling when this worker began."""

    async def begin(self) -> None:
        """Remembers the number of pages of earlier runs."""
        connection = self._session.connection
        if connection.is_open and self._session.joined.resumed:
            totals = await connection.crawl.totals()
            self._before = totals.get("pages", 0) + totals.get("unchanged", 0)

    def applies(self, now: CrawlFigures) -> bool:
        """Whether the crawl has no page, or this run added none although one of its start URLs failed."""
        fetched = now.pages + now.unchanged
        starts = self._session.scope.starts
        if not fetched:
            only_items = not starts.reasons and self._crawler.stats.get_value("item_scraped_count")
            return not only_items and not is_fed(self._crawler.spider)
        return starts.failed and fetched == self._before

    async def reasons(self, now: CrawlFigures, reason: str) -> dict[str, str]:
        """Returns start URL -> why it brought no page, for the start URLs known here; raises UNAVAILABLE."""
        outcomes = {}
        for url, why in self._session.scope.starts.reasons.items():
            outcomes[url] = why if why != QUEUED else await self._look_up(url, now, reason)
        return outcomes | {url: why for url, why in now.failed_start_urls.items() if url not in outcomes}

    def lines(self, now: CrawlFigures, reasons: dict[str, str]) -> list[str]:
        """Returns the lines of the summary."""
        if not reasons:
            return ["No page was fetched: the spider made no start request."]
        shown = list(reasons.items())[:_MOST_SHOWN]
        lines = [f"  {url}: {without_class(why)}" for url, why in shown]
        if (more := max(self._session.scope.starts.number, len(reasons)) - len(shown)) > 0:
            lines.append(f"  and {more:,} more")
        return [f"{'This run fetched no page' if now.pages else 'No page was fetched'}:", *lines]

    async def _look_up(self, url: str, now: CrawlFigures, reason: str) -> str:
        """Returns the engine's outcome of a start URL whose outcome this process did not see."""
        if why := now.failed_start_urls.get(url):
            return why
        if url.partition("://")[1] and (dead := await self._dead_letter(url)):
            return dead
        if reason != "finished":
            return _WAITING
        return _PARKED if now.parked else _KNOWN

    async def _dead_letter(self, url: str) -> str | None:
        return await self._session.connection.frontier.reason_of_death(split(url)[0], url)


class WrittenFeeds:
    """Counts the items in the feeds of a run, from Scrapy's signals. Names of feeds contain no passwords."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._all_closed = asyncio.Event()
        self._added: Counter[str] = Counter()
        self._replaced: dict[str, int] = {}
        crawler.signals.connect(self._closed, signals.feed_slot_closed)
        crawler.signals.connect(self._all_closed.set, signals.feed_exporter_closed)

    async def close(self) -> None:
        """Waits until Scrapy has stored all feeds, at the end of the spider."""
        from scrapy.extensions.feedexport import FeedExporter

        if self._crawler.get_extension(FeedExporter) is not None:
            await self._all_closed.wait()

    @property
    def failed(self) -> int:
        """The number of files that could not be stored."""
        stats = self._crawler.stats.get_stats().items()
        return sum(number for name, number in stats if name.startswith("feedexport/failed_count/"))

    def totals(self, before: dict[str, int]) -> dict[str, int]:
        """Returns feed -> its items after this run, given the items of earlier runs."""
        return before | self._replaced | {name: before.get(name, 0) + n for name, n in self._added.items()}

    def _closed(self, slot: Any) -> None:
        """Counts a complete file. The batches of a feed count together, by the template of their names."""
        if slot.feed_options["batch_item_count"]:
            self._added[without_password(slot.uri_template)] += slot.itemcount
        elif getattr(slot.storage, "write_mode", "wb") == "ab":
            self._added[without_password(slot.uri)] += slot.itemcount
        else:
            self._replaced[without_password(slot.uri)] = slot.itemcount
