"""Answers the request for the local file that the command line names."""

from __future__ import annotations

from typing import Self

from scrapy import Request
from scrapy.core.downloader.handlers.file import FileDownloadHandler
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.misc import build_from_crawler

from webcrawl.temporary.isolation import NAMED_FILE


class LocalFileMiddleware:
    """Reads the file as Scrapy's download handler does. No other `file:` URL has a handler."""

    def __init__(self, url: str, handler: FileDownloadHandler) -> None:
        self._url = url
        self._handler = handler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.settings[NAMED_FILE], build_from_crawler(FileDownloadHandler, crawler))

    async def process_request(self, request: Request) -> Response | None:
        return await self._handler.download_request(request) if request.url == self._url else None
