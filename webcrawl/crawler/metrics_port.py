"""Serves the metrics of one worker at METRICS_PORT."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.config import read
from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.session import Session
from webcrawl.metrics.library import prometheus_client

if TYPE_CHECKING:
    # Scrapy imports extensions that are off too
    from webcrawl.metrics.exposition import Exposition
    from webcrawl.metrics.server import MetricsServer

logger = logging.getLogger(__name__)


class MetricsPort:
    """Extension that answers while the spider is open; off without METRICS_PORT."""

    def __init__(self, crawler: Crawler, session: Session, host: str, port: int) -> None:
        from webcrawl.metrics.server import MetricsServer, listen

        self._crawler = crawler
        self._session = session
        # now, not when the spider opens: a port that is taken stops the crawl before it starts
        self._server: MetricsServer = MetricsServer(listen("METRICS_PORT", host, port), self._metrics)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if (port := read(crawler.settings, "METRICS_PORT")) is None:
            raise NotConfigured
        prometheus_client()
        extension = cls(crawler, Session.of(crawler), read(crawler.settings, "METRICS_HOST"), port)
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.engine_stopped, signals.engine_stopped)
        return extension

    async def spider_opened(self) -> None:
        if self._session.connection.is_open:
            logger.info("Serving metrics at %s", self._server.url)
            await self._server.start()

    async def engine_stopped(self) -> None:
        await self._server.close()

    async def _metrics(self, accept: str) -> Exposition:
        from webcrawl.crawler.worker_metrics import disk_samples, worker_samples
        from webcrawl.metrics.exposition import exposition

        samples = worker_samples(self._session, tasks_of(self._crawler))
        samples += await asyncio.to_thread(disk_samples, self._session.stores)
        more = prometheus_client().ProcessCollector(registry=None).collect()
        return exposition({self._session.connection.keys.crawl: samples}, more, accept)
