"""What a run has written to Scrapy's feeds."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler

from webcrawl.config.passwords import without_password


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
        """Wait until Scrapy has stored all feeds, at the end of the spider."""
        from scrapy.extensions.feedexport import FeedExporter

        if self._crawler.get_extension(FeedExporter) is not None:
            await self._all_closed.wait()

    @property
    def failed(self) -> int:
        """The number of files that could not be stored."""
        stats = self._crawler.stats.get_stats().items()
        return sum(number for name, number in stats if name.startswith("feedexport/failed_count/"))

    def totals(self, before: dict[str, int]) -> dict[str, int]:
        """Feed -> its items after this run, given those of earlier runs."""
        return before | self._replaced | {name: before.get(name, 0) + n for name, n in self._added.items()}

    def _closed(self, slot: Any) -> None:
        """A file is complete. The batches of a feed count together, by the template of their names."""
        if slot.feed_options["batch_item_count"]:
            self._added[without_password(slot.uri_template)] += slot.itemcount
        elif getattr(slot.storage, "write_mode", "wb") == "ab":
            self._added[without_password(slot.uri)] += slot.itemcount
        else:
            self._replaced[without_password(slot.uri)] = slot.itemcount
