"""Scrapy's log lines of single pages; they cost nothing unless LOG_LEVEL shows them."""

from __future__ import annotations

import logging
from typing import Any, Self

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.logformatter import LogFormatter, LogFormatterResult
from twisted.python.failure import Failure

from webcrawl.config import read
from webcrawl.errors import EngineUnavailable, StoreError, StoreUnavailable

logger = logging.getLogger(__name__)


class QuietLogFormatter(LogFormatter):
    """Scrapy's formatter, which skips lines that are not shown, and logs failed downloads at level INFO.

    A page that cannot be fetched is counted, retried and stored with its error, so it needs no traceback.
    """

    def __init__(self, level: int | str = logging.DEBUG) -> None:
        # only the handler that Scrapy installs filters by level, not the loggers
        self._pages_are_shown = level_number(level) <= logging.DEBUG

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(read(crawler.settings, "LOG_LEVEL"))

    def crawled(self, request: Request, response: Response, spider: Spider) -> LogFormatterResult | None:  # type: ignore[override]
        return super().crawled(request, response, spider) if self._pages_are_shown else None

    def scraped(self, item: Any, response: Any, spider: Spider) -> LogFormatterResult | None:  # type: ignore[override]
        if not self._pages_are_shown:
            return None
        return {
            "level": logging.DEBUG,
            "msg": "Stored %(item)s",
            "args": {"item": getattr(item, "url", item)},
        }

    def download_error(
        self, failure: Failure, request: Request, spider: Spider, errmsg: str | None = None
    ) -> LogFormatterResult:
        return {**super().download_error(failure, request, spider, errmsg), "level": logging.INFO}

    def item_error(
        self, item: Any, exception: BaseException, response: Any, spider: Spider
    ) -> LogFormatterResult:
        """Logs pages that could not be stored when the crawl ended at level INFO, because they are fetched again.

        A page that a store refuses is one line; the traceback that Scrapy adds goes to level DEBUG.
        """
        url = getattr(item, "url", item)
        known = super().item_error(url, exception, response, spider)
        if isinstance(exception, EngineUnavailable | StoreUnavailable):
            known["level"] = logging.INFO
        elif isinstance(exception, StoreError):
            logger.error("%s is not stored: %s", url, exception)
            known["level"] = logging.DEBUG
        return known


def level_number(level: int | str) -> int:
    """Returns the number of a level such as "INFO" or 20."""
    return int(level) if str(level).isdecimal() else logging.getLevelNamesMapping()[str(level)]
