"""Counts requests, responses and their bytes."""

from __future__ import annotations

from scrapy import Request, Spider
from scrapy.downloadermiddlewares.stats import DownloaderStats, get_header_size, get_status_size
from scrapy.http import Response

from webcrawl.crawler.responses import length_of


class StatsMiddleware(DownloaderStats):
    """Scrapy's DownloaderStats, without loading a body from its file to determine its length."""

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Response:
        self.stats.inc_value("downloader/response_count")
        self.stats.inc_value(f"downloader/response_status_count/{response.status}")
        head = get_header_size(response.headers) + get_status_size(response.status) + 4
        self.stats.inc_value("downloader/response_bytes", length_of(response) + head)
        return response
