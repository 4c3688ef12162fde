"""The base of download handlers for protocols other than HTTP.

It checks addresses, receives bodies within the limits and raises Scrapy's exceptions. A protocol is a subclass that
implements `fetch`; DOWNLOAD_HANDLERS names it for its scheme.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Headers, Response

from webcrawl.crawler.download.failures import protocol_failure
from webcrawl.crawler.download.receiving import BodyReceiver, limit_reading
from webcrawl.crawler.fetch import keep_exchange, paced_address, wait_to_send
from webcrawl.crawler.responses import content_type
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.exchange import Exchange
from webcrawl.documents.mime.sniff import sniff
from webcrawl.urls.canonical import hostname, normalize, port, without_fragment


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a protocol to one URL.

    `status` is the equivalent in HTTP: 200 is archived, 403 means forbidden, 404 not found, and 503 makes the crawl
    back off. `chunks` are read from the network one by one and may raise BrokenTransfer. `peer` is the address of the
    host. `truncated` is "length" if the protocol left out the end of a long response. `problem` names the part of a 200
    that could not be read.
    """

    chunks: AsyncIterator[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    peer: str | None = None
    truncated: str | None = None
    problem: str | None = None


class Protocol(SessionComponent, ABC):
    """A Scrapy download handler for one scheme. Only `fetch` sends anything."""

    lazy = True
    default_port: ClassVar[int]
    """The port of URLs without a port."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self.settings = crawler.settings
        self._receiver = BodyReceiver(crawler, session)

    @abstractmethod
    def fetch(self, url: str, addresses: list[str]) -> AbstractAsyncContextManager[Answer]:
        """Requests a normalized URL from the first of these addresses that can be reached, and from no other.

        Raises OSError, EOFError and BrokenTransfer, which count as a failure of the host.
        """

    async def close(self) -> None:
        """Closes what a subclass keeps between two URLs; called at the end of the crawl."""
        return

    async def download_request(self, request: Request) -> Response:
        """Downloads one request; raises Scrapy's download exceptions and RequestRefused."""
        timeout = request.meta.get("download_timeout", self._session.fetch.timeout)
        try:
            async with asyncio.timeout(timeout) as limit:
                return await self._download(request, limit)
        except Exception as error:
            failure = protocol_failure(error, request.url, timeout)
            if failure is None:
                raise
            raise failure from error

    async def _download(self, request: Request, limit: asyncio.Timeout) -> Response:
        url = normalize(request.url)
        addresses = await self._addresses(hostname(url), port(url))
        if only := paced_address(request):
            addresses = [address for address in addresses if address == only]
        await wait_to_send(request)
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with self.fetch(url, addresses) as answer:
            request.meta["download_latency"] = latency = loop.time() - began
            if self._session.observed is not None:
                self._session.observed.stage("first_byte", request.url, time.monotonic() - latency)
            return await self._response(request, url, answer, limit)

    async def _addresses(self, name: str, number: int) -> list[str]:
        """Returns the addresses of a host; raises AddressRefused if the guard forbids any."""
        resolved = await self._session.resolver.resolve(name)
        self._session.guard.check_all(resolved.addresses, hostname=name, port=number)
        return list(resolved.addresses)

    async def _response(self, request: Request, url: str, answer: Answer, limit: asyncio.Timeout) -> Response:
        headers = Headers(answer.headers)
        next_chunk = partial(_next_chunk, answer.chunks, limit_reading(limit))
        body = await self._receiver.receive(request, headers, next_chunk)
        body.truncated = body.truncated or answer.truncated
        if answer.status == 200:
            exchange = Exchange.without_heads(
                without_fragment(request.url),
                body.body,
                sniff(content_type(headers), body.body, url).mime_type,
                ip_address=answer.peer,
                truncated=body.missing(at_end=False),
                problem=answer.problem,
            )
            keep_exchange(request, exchange)
        return body.response(request, headers, answer.status, answer.peer)


async def _next_chunk(chunks: AsyncIterator[bytes], end: float | None) -> bytes:
    """Returns the next bytes, b"" at the end; raises TimeoutError at the time `end` of the event loop's clock."""
    chunk: bytes | None = b""
    while chunk == b"":
        async with asyncio.timeout_at(end):
            chunk = await anext(chunks, None)
    return chunk or b""
