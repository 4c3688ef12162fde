"""Copies the dead letters of running crawls to the table of stuck pages, which notifications and the dashboard read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from webcrawl.alarms.stuck import StuckPage, StuckPages
from webcrawl.frontier.dead_letters import SpilledDeadLetters
from webcrawl.opened import OpenedCrawl

logger = logging.getLogger(__name__)

_BATCH = 1_000


class DeadLetterCopies:
    """Copies the dead letters of a crawl when their number has changed."""

    def __init__(self) -> None:
        self._copied: dict[str, int] = {}
        """The number of dead letters at the last copy, by crawl."""

    def are_copied(self, crawl: str, number: int) -> bool:
        """Returns whether there were `number` dead letters at the last copy."""
        return self._copied.get(crawl, 0) == number

    async def copy(self, opened: OpenedCrawl, number: int) -> int:
        """Adds new dead letters to the stuck pages, and removes dead letters that were queued again.

        `number`: the engine's number of dead letters. Returns the number of stuck URLs; raises StoreError.
        """
        connection = opened.connection
        crawl, left = connection.keys.crawl, set[str]()
        stuck = await asyncio.to_thread(StuckPages, opened.stores.metadata)
        try:
            if self.are_copied(crawl, number):
                return await asyncio.to_thread(_count, stuck, crawl)
            batch: list[StuckPage] = []
            spilled = SpilledDeadLetters(connection.frontier, connection.tails)
            for letters in (connection.frontier.dead_letters(), spilled.letters(None, "")):
                async for letter in letters:
                    then = datetime.fromtimestamp(letter.time, UTC)
                    queued = datetime.fromtimestamp(letter.queued_at, UTC) if letter.queued_at else None
                    page = StuckPage(crawl, letter.url, "DEAD_LETTER", letter.reason, then, then)
                    batch.append(replace(page, queued_at=queued))
                    left.add(letter.url)
                    if len(batch) == _BATCH:
                        await asyncio.to_thread(_add, stuck, batch)
                        batch = []
            await asyncio.to_thread(_add, stuck, batch)
            await asyncio.to_thread(_forget, stuck, crawl, left)
            self._copied[crawl] = number
            return await asyncio.to_thread(_count, stuck, crawl)
        finally:
            stuck.close()


def count_stuck(uri: str, crawl: str) -> int:
    """Returns the number of stuck URLs of a crawl in the metadata database at a URI."""
    with StuckPages(uri) as stuck:
        return _count(stuck, crawl)


def _add(stuck: StuckPages, batch: Sequence[StuckPage]) -> None:
    for page, error in stuck.add_accepted(batch):
        logger.error("%s is a dead letter of %s, and cannot be listed: %s", page.url, page.crawl, error)


def _count(stuck: StuckPages, crawl: str) -> int:
    return stuck.count_urls(crawl)


def _forget(stuck: StuckPages, crawl: str, left: set[str]) -> None:
    """Removes pages that are no longer dead letters."""
    for page in _all(stuck, crawl):
        if page.kind == "DEAD_LETTER" and page.url not in left:
            stuck.remove(crawl, "DEAD_LETTER", page.url)


def _all(stuck: StuckPages, crawl: str) -> Sequence[StuckPage]:
    pages: list[StuckPage] = []
    while batch := stuck.pages(crawl, pages[-1] if pages else None, _BATCH):
        pages += batch
    return pages
