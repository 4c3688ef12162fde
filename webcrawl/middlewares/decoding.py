"""Decodes the Content-Encoding of responses."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from contextlib import closing, nullcontext
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import Response

from webcrawl.crawler.access import is_robots, tasks_of
from webcrawl.crawler.responses import (
    BAD_CODING,
    TRUNCATED,
    UNFINISHED,
    body_of,
    content_type,
    header_values,
    length_of,
    make_response,
    says_nosniff,
    truncation_of,
)
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.body import Body
from webcrawl.documents.body_writer import BodyWriter
from webcrawl.documents.content_coding import codings, pieces
from webcrawl.errors import BadCoding

_QUICK_BYTES = 256 * 1024
"""Bodies of at most this decoded length are decoded without a thread, which would cost 0.1 ms."""


class DecodingMiddleware(SessionComponent):
    """Replaces Scrapy's HttpCompressionMiddleware. It decodes piece by piece, large bodies in a thread into a file.

    A body that exceeds the limit of its type in DOCUMENT_MAXSIZE is truncated. A body that exceeds DOWNLOAD_MAXSIZE is
    refused, as in Scrapy. A body that cannot be decoded stays encoded. If a body ends early or has a wrong checksum,
    what was decoded is kept, and a flag of the response names the flaw.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        if not crawler.settings.getbool("COMPRESSION_ENABLED"):
            raise NotConfigured
        self._spool, self._budget = session.fetch.spool, session.bodies
        self._sizes = session.sizes
        self._maxsize = session.fetch.maxsize
        self._chains = asyncio.Lock()
        """Held while a chain of codings is decoded: each coding has a window of up to 16 MiB."""

    def process_request(self, request: Request) -> None:
        request.headers.setdefault("Accept-Encoding", b"gzip, deflate")

    def process_response(
        self, request: Request, response: Response
    ) -> Response | Coroutine[Any, Any, Response]:
        encodings = b",".join(header_values(response.headers, b"Content-Encoding"))
        if encodings and request.method != "HEAD" and length_of(response):
            return self._counted_when_decoded(request, response, codings(encodings.decode("latin-1")))
        return self._counted(request, response)

    def _counted(self, request: Request, response: Response) -> Response:
        if TRUNCATED in response.flags and not is_robots(request):
            tasks_of(self._crawler).count("truncated")
        return response

    async def _counted_when_decoded(self, request: Request, response: Response, names: list[str]) -> Response:
        return self._counted(request, await self._decoded(request, response, names))

    async def _decoded(self, request: Request, response: Response, names: list[str]) -> Response:
        payload, flags = body_of(response), list(response.flags)
        headers = response.headers.copy()
        try:
            is_quick = not payload.is_spooled and len(names) <= 1
            decoded = self._decode(request, response, names, _QUICK_BYTES) if is_quick else None
            if decoded is None:
                async with self._chains if len(names) > 1 else nullcontext():
                    decoded = await asyncio.to_thread(self._decode, request, response, names, math.inf)
            assert decoded is not None
            body, flaws = decoded
            del headers["Content-Encoding"]
            if truncation_of(flags) or "download_stopped" in flags:
                # the flag of a partial transfer already explains a partial body
                flaws.discard(UNFINISHED)
            flags += sorted(flaws.difference(flags))
        except BadCoding:
            body = payload
            flags.append(BAD_CODING)
        return make_response(
            body,
            response.url,
            headers,
            status=response.status,
            flags=flags,
            request=response.request,
            certificate=response.certificate,
            ip_address=response.ip_address,
            protocol=response.protocol,
        )

    def _decode(
        self, request: Request, response: Response, names: list[str], most: float
    ) -> tuple[Body, set[str]] | None:
        """Returns the body and the flags for its flaws; returns None for `most` or more decoded bytes.

        Raises BadCoding, IgnoreRequest or StoreError.
        """
        with closing(BodyWriter(self._spool, digests=True, budget=self._budget)) as writer:
            return self._written(writer, request, response, names, most)

    def _written(
        self, writer: BodyWriter, request: Request, response: Response, names: list[str], most: float
    ) -> tuple[Body, set[str]] | None:
        flaws: set[str] = set()
        refused = request.meta.get("download_maxsize", self._maxsize) or math.inf
        headers = response.headers
        whole = self._sizes.fill(
            writer,
            pieces(body_of(response).chunks(), names, flaws.add),
            content_type(headers),
            response.url,
            nosniff=says_nosniff(headers),
            most=min(refused, most),
        )
        if not whole and writer.size >= refused:
            raise IgnoreRequest(f"{request.url} decodes to more than DOWNLOAD_MAXSIZE {refused} bytes")
        if not whole and writer.size >= most:
            return None
        if not whole:
            # what follows the cut was not decoded
            flaws = {TRUNCATED}
        return writer.finish(), flaws
