"""The project's download handlers in a crawler that is not running, for tests of single requests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeAlias

from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.statscollectors import StatsCollector

from tests.nameserver import Nameserver, Record
from webcrawl.crawler.crawl_settings import crawler_of
from webcrawl.crawler.download.curl import CurlDownloadHandler
from webcrawl.crawler.download.ftp import FTPDownloadHandler
from webcrawl.crawler.download.http import HTTPDownloadHandler
from webcrawl.crawler.fetch import exchange_of
from webcrawl.crawler.session import Session
from webcrawl.documents.exchange import Exchange

LOOPBACK = {"ALLOWED_NETWORKS": ["127.0.0.0/8"]}
CLOSED = "127.0.0.1:9"
Handler: TypeAlias = HTTPDownloadHandler | FTPDownloadHandler | CurlDownloadHandler


def run(coroutine: Coroutine[Any, Any, None], seconds: float = 60.0) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await coroutine

    asyncio.run(bounded())


class NamedSpider(Spider):
    name = "spider"


class Client:
    """The HTTP handler in a crawler with the project's settings; it sends nothing outside loopback."""

    def __init__(self, **settings: Any) -> None:
        project = Settings()
        project.setmodule("settings.base")
        project.update({"DNS_SERVERS": [CLOSED], "DOWNLOAD_TIMEOUT": 10, **LOOPBACK, **settings})
        self.crawler = crawler_of(project, NamedSpider)
        self.crawler.spider = NamedSpider()
        self.crawler.stats = StatsCollector(self.crawler)

    async def __aenter__(self) -> Self:
        self.session = Session.of(self.crawler)
        self._handler: HTTPDownloadHandler | FTPDownloadHandler | CurlDownloadHandler = (
            HTTPDownloadHandler.from_crawler(self.crawler)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._handler.close()
        await self.session.resolver.close()

    async def get(self, url: str, **options: Any) -> Response:
        return await self.send(Request(url, **options))

    async def send(self, request: Request) -> Response:
        return await self._handler.download_request(request)

    async def exchange(self, url: str, **options: Any) -> Exchange:
        request = Request(url, **options)
        await self.send(request)
        exchange = exchange_of(request)
        assert exchange is not None
        return exchange


class FTPClient(Client):
    """The FTP handler in the same kind of crawler."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self._handler.close()
        self._handler = FTPDownloadHandler.from_crawler(self.crawler)
        return self


class CurlClient(Client):
    """The handler for HTTP/2 and impersonation in the same kind of crawler."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self._handler.close()
        self._handler = CurlDownloadHandler.from_crawler(self.crawler)
        return self


@contextmanager
def names(**zone: str) -> Iterator[str]:
    """Runs a name server that knows the addresses in `zone`; underscores stand for dots."""
    records = {name.replace("_", "."): [Record("A", address)] for name, address in zone.items()}
    with Nameserver(records) as nameserver:
        yield nameserver.address
