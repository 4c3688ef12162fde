"""Says why a run fetched no page: the outcome of each start URL."""

from __future__ import annotations

from scrapy.crawler import Crawler

from webcrawl.crawler.scheduling.start_urls import is_fed
from webcrawl.crawler.session import Session
from webcrawl.crawler.start_outcomes import QUEUED
from webcrawl.frontier.figures import CrawlFigures
from webcrawl.urls.canonical import split

_MOST_SHOWN = 10
_KNOWN = "already crawled before, or by another worker"
_PARKED = "its host is blocked or at its limit: see `scrapy host`"
_WAITING = "not fetched yet"


class NoPages:
    """Tells a run that fetched no page from one that had nothing to do."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._session = session
        self._before = 0
        """Pages of earlier runs, of a crawl that no other worker was crawling when this one began."""

    async def begin(self) -> None:
        """Remember the pages of earlier runs."""
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
        """Start URL -> why it brought no page, of the start URLs that are known here; raises UNAVAILABLE."""
        found = {}
        for url, why in self._session.scope.starts.reasons.items():
            found[url] = why if why != QUEUED else await self._look_up(url, now, reason)
        return found | {url: why for url, why in now.failed_start_urls.items() if url not in found}

    def lines(self, now: CrawlFigures, reasons: dict[str, str]) -> list[str]:
        """What the summary prints."""
        if not reasons:
            return ["No page was fetched: the spider made no start request."]
        shown = list(reasons.items())[:_MOST_SHOWN]
        lines = [f"  {url}: {why}" for url, why in shown]
        if (more := max(self._session.scope.starts.number, len(reasons)) - len(shown)) > 0:
            lines.append(f"  and {more:,} more")
        return [f"{'This run fetched no page' if now.pages else 'No page was fetched'}:", *lines]

    async def _look_up(self, url: str, now: CrawlFigures, reason: str) -> str:
        """What the engine knows of a start URL whose outcome this process did not see."""
        if why := now.failed_start_urls.get(url):
            return why
        if url.partition("://")[1] and (dead := await self._dead_letter(url)):
            return dead
        if reason != "finished":
            return _WAITING
        return _PARKED if now.parked else _KNOWN

    async def _dead_letter(self, url: str) -> str | None:
        return await self._session.connection.frontier.reason_of_death(split(url)[0], url)
