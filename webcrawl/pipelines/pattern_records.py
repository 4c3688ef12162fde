"""Counts the outcomes of pages for each URL pattern of a host."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.utils.misc import load_object

from webcrawl.crawler.access import tasks_of
from webcrawl.documents.page import Page
from webcrawl.errors import InvalidURL
from webcrawl.pipelines.near_duplicates import NearDuplicatesPipeline
from webcrawl.policies.pattern_records import Outcome
from webcrawl.urls.canonical import split

_PASSING = frozenset((401, 403, 407, 408, 425, 429))
"""Client errors that say nothing about the URL: the server requires a login, or fewer requests."""


class PatternRecordsPipeline:
    """Reports to the worker whether a page was new, a copy, an error, or without text.

    Error pages with status 200 count as errors. A redirect counts with its target. Errors of servers and connections
    are temporary and do not count.
    """

    def __init__(self, crawler: Crawler, *, reads_text: bool) -> None:
        self._crawler = crawler
        self._reads_text = reads_text

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        # without this check, the text may be unknown because no earlier pipeline extracts it
        enabled = crawler.settings.get_component_priority_dict_with_base("ITEM_PIPELINES")
        loaded = [load_object(path) for path, order in enabled.items() if order is not None]
        return cls(crawler, reads_text=NearDuplicatesPipeline in loaded)

    def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and not item.reading.is_frame and (outcome := self.outcome(item)):
            with suppress(InvalidURL):  # a local file
                host, path = split(item.url)
                worker = tasks_of(self._crawler).worker
                if worker.intake.records.count_page(host, path, outcome):
                    worker.hosts.reconsider(host)
        return item

    def outcome(self, page: Page) -> Outcome | None:
        """Returns the outcome of a page; None if the page says nothing about its URL."""
        status = page.status
        if status is None:
            return None
        if page.soft_404:
            return "error"
        if 400 <= status < 500:
            return None if status in _PASSING else "error"
        if status != 200:
            return None
        if page.duplicate_kind is not None:
            return "copy"
        known = (
            not self._reads_text
            or page.mime_type != "text/html"
            or page.reading.text_hash is not None
            or page.main_text  # the whole text would be read anew
            or page.text
        )
        return "new" if known else "empty"
