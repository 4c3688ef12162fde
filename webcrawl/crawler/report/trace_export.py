"""Sends the stages of pages in this worker as traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.crawler import Crawler

from webcrawl.config.libraries import opentelemetry
from webcrawl.crawler.session import Session, SessionComponent

if TYPE_CHECKING:
    # Scrapy imports extensions that are off too
    from webcrawl.metrics.exporting import Exporting
    from webcrawl.metrics.traces import Traces


class TraceExport(SessionComponent):
    """Extension that sends traces until the crawl has ended; off without TRACES."""

    needs = "TRACES"

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        opentelemetry()
        from webcrawl.metrics.exporting import Exporting
        from webcrawl.metrics.traces import Traces

        connection = session.connection
        self._exporting: Exporting = Exporting(connection.keys.crawl, connection.worker)
        self._traces: Traces = Traces(self._exporting.tracer)
        assert session.observed is not None
        session.observed.traces = self._traces
        crawler.signals.connect(self.engine_stopped, signals.engine_stopped)

    async def engine_stopped(self) -> None:
        self._traces.close()
        await self._exporting.close()
