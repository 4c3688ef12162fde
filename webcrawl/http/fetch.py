"""Requests of an operator's own servers, such as scrapyd nodes and lists of seeds."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlencode, urljoin

from webcrawl.errors import BrokenTransfer
from webcrawl.http.pool import Pool, Way
from webcrawl.http.requests import RequestTarget, head_of, target_of

_MOST_REDIRECTS = 10
_FORM = (b"Content-Type", b"application/x-www-form-urlencoded")


class Fetched(NamedTuple):
    """A response, after redirects."""

    status: int
    body: bytes


async def fetch(
    url: str, *, seconds: float, largest: int, form: Sequence[tuple[str, str]] | None = None
) -> Fetched:
    """Returns the response to a GET, or to a POST of a form, whose redirects are followed.

    The body is cut after `largest` bytes. Raises CrawlError, OSError and ValueError; TimeoutError after `seconds`.
    """
    pool = Pool(_addresses, ssl.create_default_context)
    try:
        async with asyncio.timeout(seconds):
            for _ in range(_MOST_REDIRECTS):
                answer, location = await _ask(pool, target_of(url), largest, form)
                if location is None:
                    return answer
                url, form = urljoin(url, location), None
            raise BrokenTransfer("too many redirects")
    finally:
        await pool.close()


async def _ask(
    pool: Pool, target: RequestTarget, largest: int, form: Sequence[tuple[str, str]] | None
) -> tuple[Fetched, str | None]:
    """Returns a response, and where it redirects to."""
    method, body = ("GET", b"") if form is None else ("POST", urlencode(form).encode())
    fields = [] if form is None else [_FORM]
    connection = await pool.take(way := Way(target.server))
    try:
        head = head_of(method.encode(), target.path, target.server, fields, len(body))
        connection.send(method, head, body)
        answer, content = await connection.head(), bytearray()
        while len(content) < largest and (piece := await connection.read()):
            content += piece
    finally:
        pool.give(way, connection)
    locations = [value.decode("latin-1") for name, value in answer.fields if name.lower() == b"location"]
    is_redirect = HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST and locations
    return Fetched(answer.status, bytes(content[:largest])), locations[0] if is_redirect else None


async def _addresses(host: str, port: int) -> list[str]:
    resolved = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in resolved))
