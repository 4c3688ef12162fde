"""What every protocol beside HTTP needs: addresses past the guard, bodies into the spool, limits, Scrapy's exceptions.

A protocol is a class that says how to `fetch` a URL; `DOWNLOAD_HANDLERS` names it for its scheme.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
)
from scrapy.http import Headers, Response

from webcrawl.config import read
from webcrawl.crawler.errors import RequestRefused
from webcrawl.crawler.fetch import TRUNCATE, keep_exchange, run_check
from webcrawl.crawler.responses import content_type, flags_of, make_response
from webcrawl.crawler.session import Session
from webcrawl.documents.body import BodyWriter
from webcrawl.documents.exchange import Exchange
from webcrawl.documents.mime.sniff import SNIFF_BYTES, sniff
from webcrawl.errors import AddressRefused, BrokenTransfer, NameNotResolved
from webcrawl.urls.canonical import hostname, normalize, port

# To end a connection in good order after the time was up.
_CLEANUP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a protocol got for a URL.

    `status` as HTTP would say it: 200 is archived, 403 tells that it is not for us, 404 that there is nothing, 503 that
    the host wants to be left alone for a while. `chunks` come from the network as they are asked for; they may raise
    BrokenTransfer. `peer` is the address that was connected to. `truncated` is "length" where the protocol itself left
    out what was too long. `problem` says what of a 200 the protocol could not read.
    """

    chunks: AsyncIterator[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    peer: str | None = None
    truncated: str | None = None
    problem: str | None = None


class Protocol(ABC):
    """A Scrapy download handler for one scheme. Nothing is sent but by `fetch`."""

    lazy = True
    default_port: ClassVar[int]
    """Of URLs that name none."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self.settings = crawler.settings
        self._session = session

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, Session.of(crawler))

    @abstractmethod
    def fetch(self, url: str, addresses: list[str]) -> AbstractAsyncContextManager[Answer]:
        """Get a normalised URL from the first of these addresses that can be reached.

        It may connect to them alone, and may raise OSError and EOFError, which count as a failure of the host.
        """

    async def close(self) -> None:
        """Called at the end of the crawl; by itself nothing is kept between two URLs."""
        return

    async def download_request(self, request: Request) -> Response:
        """Fetch one request."""
        timeout = request.meta.get("download_timeout", self._session.fetch.timeout)
        try:
            async with asyncio.timeout(timeout) as limit:
                return await self._download(request, limit)
        except TimeoutError as error:
            raise DownloadTimeoutError(
                f"Getting {request.url} took longer than {timeout} seconds."
            ) from error
        except AddressRefused as error:
            raise RequestRefused(str(error)) from error
        except NameNotResolved as error:
            raise CannotResolveHostError(str(error)) from error
        except ConnectionRefusedError as error:
            raise DownloadConnectionRefusedError(str(error)) from error
        except (OSError, EOFError, BrokenTransfer) as error:
            raise DownloadFailedError(f"{type(error).__name__}: {error}") from error

    async def _download(self, request: Request, limit: asyncio.Timeout) -> Response:
        loop = asyncio.get_running_loop()
        began = loop.time()
        url = normalize(request.url)
        addresses = await self._addresses(hostname(url), port(url))
        run_check(request)
        async with self.fetch(url, addresses) as answer:
            request.meta["download_latency"] = loop.time() - began
            return await self._response(request, url, answer, limit)

    async def _addresses(self, name: str, number: int) -> list[str]:
        """The addresses of a host, each past the guard."""
        found = await self._session.resolver.resolve(name)
        for address in found.addresses:
            self._session.guard.check(address, hostname=name, port=number)
        return list(found.addresses)

    async def _response(self, request: Request, url: str, answer: Answer, limit: asyncio.Timeout) -> Response:
        headers = Headers(answer.headers)
        writer = BodyWriter(self._session.fetch.spool, digests=True)
        truncated = await self._receive(writer, request, url, headers, answer.chunks, limit)
        body, truncated = writer.finish(), truncated or answer.truncated
        if answer.status == 200:
            keep_exchange(
                request,
                Exchange(
                    url=request.url,
                    method="GET",
                    request_head=b"",
                    request_body=b"",
                    status=answer.status,
                    response_head=b"",
                    payload=body,
                    ip_address=answer.peer,
                    fetched_at=datetime.now(UTC),
                    truncated=truncated,
                    problem=answer.problem,
                    mime_type=sniff(content_type(headers), body, url).mime_type,
                ),
            )
        peer = ipaddress.ip_address(answer.peer) if answer.peer else None
        return make_response(
            body,
            request.url,
            headers,
            status=answer.status,
            flags=flags_of(truncated),
            ip_address=peer,
        )

    async def _receive(
        self,
        writer: BodyWriter,
        request: Request,
        url: str,
        headers: Headers,
        chunks: AsyncIterator[bytes],
        limit: asyncio.Timeout,
    ) -> str | None:
        """Have the body written; why it is not whole. From now on what came within the `limit` is kept."""
        fails = request.meta.get(
            "download_fail_on_dataloss", read(self.settings, "DOWNLOAD_FAIL_ON_DATALOSS")
        )
        end = limit.when()
        limit.reschedule(end and end + _CLEANUP_SECONDS)
        try:
            return await self._fill(writer, request, url, headers, _until(end, chunks))
        except BrokenTransfer:
            if fails:
                raise
            return "disconnect"
        except TimeoutError:
            if fails or not writer.size:
                raise
            return "time"

    async def _fill(
        self,
        writer: BodyWriter,
        request: Request,
        url: str,
        headers: Headers,
        chunks: AsyncIterator[bytes],
    ) -> str | None:
        """As far as limits allow: "length" where they do not."""
        fetch, sizes = self._session.fetch, self._session.sizes
        cut = request.meta.get(TRUNCATE)
        refused = math.inf if cut else request.meta.get("download_maxsize", fetch.maxsize) or math.inf
        most = cut or sizes.least
        async for chunk in chunks:
            if writer.size + len(chunk) > most:
                start = writer.start(SNIFF_BYTES) + chunk
                most = cut or sizes.of_start(content_type(headers), start, url)
                if writer.size + len(chunk) > most:
                    writer.add(chunk[: int(most) - writer.size])
                    return "length"
            writer.add(chunk)
            if writer.size > refused:
                raise DownloadCancelledError(f"{request.url} is larger than DOWNLOAD_MAXSIZE {refused}")
            if writer.is_full:
                await asyncio.to_thread(writer.spill)
        return None


async def _until(end: float | None, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """What comes until then; raises TimeoutError, while it waits for more and at no other moment."""
    while True:
        async with asyncio.timeout_at(end):
            chunk = await anext(chunks, None)
        if chunk is None:
            return
        yield chunk
