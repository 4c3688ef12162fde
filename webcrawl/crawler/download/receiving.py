"""Receives the body of a response, for every protocol: limits by type, truncation, spooling and Scrapy's signals."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadCancelledError, ResponseDataLossError, StopDownload
from scrapy.http import Headers, Response
from twisted.python.failure import Failure

from webcrawl.config import read
from webcrawl.crawler.fetch import TRUNCATE
from webcrawl.crawler.responses import content_type, flags_of, header, make_response, says_nosniff
from webcrawl.crawler.session import Session
from webcrawl.crawler.signals import send
from webcrawl.documents.body import Body
from webcrawl.documents.body_writer import BodyWriter
from webcrawl.documents.mime.sniff import SNIFF_BYTES
from webcrawl.errors import BrokenTransfer
from webcrawl.hosts.duty_cycle import DutyCycle

logger = logging.getLogger(__name__)

NextChunk: TypeAlias = Callable[[], Awaitable[bytes]]
"""Returns the next bytes of a body, or b"" at its end; raises TimeoutError when the time is up."""

_LARGE_BYTES = 1024 * 1024
_LARGE_SHARE = 0.5
"""The largest share of time in which longer bodies are written, one after the other; others then come in between."""
_CLEANUP_SECONDS = 5.0
"""Seconds that closing a connection may take after the timeout."""
# most pages of a host come from one address
_ip_address = lru_cache(maxsize=1024)(ipaddress.ip_address)


def limit_reading(limit: asyncio.Timeout) -> float | None:
    """Returns when a download times out; from now on, only reading is limited, so that the received part is kept."""
    end = limit.when()
    limit.reschedule(end and end + _CLEANUP_SECONDS)
    return end


@dataclass(slots=True)
class Received:
    """The body of a response, as far as it was received.

    `truncated` says why the body is not whole: "length", "time", "disconnect", or None. `stopped` is the StopDownload
    that a signal handler raised.
    """

    body: Body
    truncated: str | None = None
    stopped: StopDownload | None = None

    def missing(self, *, at_end: bool) -> str | None:
        """Returns why the archived body is not whole: "length" also if a signal handler stopped it before its end."""
        return self.truncated or ("length" if self.stopped is not None and not at_end else None)

    def response(
        self,
        request: Request,
        headers: Headers,
        status: int,
        peer: str | None,
        remarks: Iterable[str] = (),
        **attributes: Any,
    ) -> Response:
        """Returns Scrapy's response, flagged if it is not whole; `peer` is the address of the host, if known.

        `remarks` are further flags. Raises StopDownload if the handler requires it.
        """
        response = make_response(
            self.body,
            request.url,
            headers,
            status=status,
            flags=[*flags_of(self.truncated), *remarks],
            ip_address=_ip_address(peer) if peer else None,
            **attributes,
        )
        if self.stopped is not None:
            response.flags.append("download_stopped")
            if self.stopped.fail:
                self.stopped.response = response
                raise self.stopped
        return response


class BodyReceiver:
    """Receives bodies for a download handler.

    As in Scrapy's handlers, DOWNLOAD_MAXSIZE, DOWNLOAD_WARNSIZE and DOWNLOAD_FAIL_ON_DATALOSS apply, and so do their
    keys in Request.meta and the signals headers_received and bytes_received with StopDownload. A body longer than
    DOCUMENT_MAXSIZE allows for its type is truncated. `broken`: the exception of a connection that ends early.
    """

    def __init__(self, crawler: Crawler, session: Session, broken: type[Exception] = BrokenTransfer) -> None:
        self._crawler = crawler
        self._broken = broken
        self._sizes = session.sizes
        self._spool, self._budget = session.fetch.spool, session.bodies
        self._timeout = session.fetch.timeout
        self._large = DutyCycle(_LARGE_SHARE)
        self._maxsize = session.fetch.maxsize
        self._observed = session.observed
        self._warnsize = session.fetch.warnsize
        self._fail_on_dataloss = read(crawler.settings, "DOWNLOAD_FAIL_ON_DATALOSS")

    async def receive(self, request: Request, headers: Headers, next_chunk: NextChunk) -> Received:
        """Reads a body to its end or its limit.

        Raises DownloadCancelledError for a body that is too large; ResponseDataLossError or TimeoutError for an
        incomplete body, if that counts as a failure; and StoreError.
        """
        announced = header(headers, b"Content-Length")
        size = int(announced) if announced and announced.isdigit() else None
        limit = self._limit(request)
        if limit and size is not None and size > limit:
            raise DownloadCancelledError(
                f"{request.url} announces {size} bytes: more than DOWNLOAD_MAXSIZE {limit}"
            )
        stopped = self._stop(signals.headers_received, request, headers=headers, body_length=size)
        if stopped is not None:
            return Received(Body(), stopped=stopped)
        with closing(BodyWriter(self._spool, digests=True, budget=self._budget)) as writer:
            return await self._received(writer, request, headers, next_chunk, limit)

    async def _received(
        self, writer: BodyWriter, request: Request, headers: Headers, next_chunk: NextChunk, limit: float
    ) -> Received:
        truncated = stopped = None
        began = None if self._observed is None else time.monotonic()
        try:
            truncated, stopped = await self._fill(writer, request, headers, next_chunk, limit)
        except self._broken as error:
            if self._fails(request):
                raise ResponseDataLossError(str(error)) from error
            truncated = "disconnect"
        except TimeoutError:
            if not writer.size or self._fails(request):
                raise
            truncated = "time"
        if self._observed is not None and began is not None:
            self._observed.stage("body", request.url, began)
        self._warn_of_size(request, writer.size)
        return Received(writer.finish(), truncated, stopped)

    async def _fill(
        self, writer: BodyWriter, request: Request, headers: Headers, next_chunk: NextChunk, limit: float
    ) -> tuple[str | None, StopDownload | None]:
        """Writes the body; returns "length" if it is cut off, and the StopDownload of a signal handler."""
        cut = request.meta.get(TRUNCATE)
        most = cut or self._sizes.least
        truncated = None
        until = time.monotonic() + (request.meta.get("download_timeout", self._timeout) or math.inf)
        while chunk := await next_chunk():
            if writer.size + len(chunk) > most:
                most = cut or self._most(request, headers, writer.start(SNIFF_BYTES) + chunk)
                if writer.size + len(chunk) > most:
                    chunk, truncated = chunk[: int(most) - writer.size], "length"
            writer.add(chunk)
            stopped = self._stop(signals.bytes_received, request, data=chunk)
            if stopped is not None or truncated:
                return truncated, stopped
            if limit and writer.size > limit:
                raise DownloadCancelledError(f"{request.url} is larger than DOWNLOAD_MAXSIZE {limit}")
            if writer.is_full:
                await self._budget.room(writer, until)
                async with self._large.turn() if writer.size > _LARGE_BYTES else nullcontext():
                    await asyncio.to_thread(writer.spill)
        return None, None

    def _limit(self, request: Request) -> float:
        """Returns the bytes above which a body is refused, or 0; a body that may be truncated is never refused."""
        return 0 if request.meta.get(TRUNCATE) else request.meta.get("download_maxsize", self._maxsize) or 0

    def _most(self, request: Request, headers: Headers, start: bytes) -> float:
        """Returns the limit in bytes for the type of a body with this start.

        The first bytes of an encoded body do not show its type; then the headers and the URL decide.
        """
        if header(headers, b"Content-Encoding"):
            start = b""
        nosniff = says_nosniff(headers)
        return self._sizes.of_start(content_type(headers), start, request.url, nosniff=nosniff)

    def _fails(self, request: Request) -> bool:
        """Returns whether an incomplete body is a failure."""
        return bool(request.meta.get("download_fail_on_dataloss", self._fail_on_dataloss))

    def _stop(self, signal: object, request: Request, **details: Any) -> StopDownload | None:
        """Sends a signal; returns the StopDownload that a handler raised."""
        spider = self._crawler.spider
        results = send(
            self._crawler, signal, request=request, spider=spider, dont_log=StopDownload, **details
        )
        for _, result in results:
            if isinstance(result, Failure) and isinstance(result.value, StopDownload):
                return result.value
        return None

    def _warn_of_size(self, request: Request, size: int) -> None:
        limit = request.meta.get("download_warnsize", self._warnsize)
        if limit and size > limit:
            logger.warning("%s has %d bytes: more than DOWNLOAD_WARNSIZE %d", request.url, size, limit)
