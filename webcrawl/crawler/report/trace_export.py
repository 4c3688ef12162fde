"""Sends the stages of pages in this worker as traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.config import read
from webcrawl.crawler.session import Session
from webcrawl.metrics.library import opentelemetry

if TYPE_CHECKING:
    # Scrapy imports extensions that are off too
    from webcrawl.metrics.exporting import Exporting
    from webcrawl.metrics.traces import Traces


class TraceExport:
    """Extension that sends traces until the crawl has ended; off without TRACES."""

    def __init__(self, session: Session) -> None:
        from webcrawl.metrics.exporting import Exporting
        from webcrawl.metrics.traces import Traces

        connection = session.connection
        self._exporting: Exporting = Exporting(connection.keys.crawl, connection.worker)
        self._traces: Traces = Traces(self._exporting.tracer)
        assert session.observed is not None
        session.observed.traces = self._traces

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not read(crawler.settings, "TRACES"):
            raise NotConfigured
        opentelemetry()
        extension = cls(Session.of(crawler))
        crawler.signals.connect(extension.engine_stopped, signals.engine_stopped)
        return extension

    async def engine_stopped(self) -> None:
        self._traces.close()
        await self._exporting.close()
