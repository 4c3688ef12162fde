"""A download handler that tells the server when each request was sent, in a header.

The time at which a server's thread comes to read a request shows gaps too short when the machine is busy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from typing import Any, cast

from scrapy.crawler import Crawler

from tests.web import Hit
from webcrawl.crawler.download.http import HTTPDownloadHandler
from webcrawl.crawler.session import Session
from webcrawl.http.connection import HTTPConnection
from webcrawl.http.pool import Way

HANDLERS = '{"http": "tests.stamped.StampedHandler"}'
"""The value of DOWNLOAD_HANDLERS."""
SLOWLY = '{"http": "tests.stamped.SlowlyConnectingHandler"}'
"""The same, with connections that take CONNECT_SECONDS to open."""
CONNECT_SECONDS = 0.4
STAMP_SECONDS = 0.002
"""By how much the stamps may show a gap too short: a process may be suspended before it stamps a request."""
_HEADER = "X-Sent"


class StampedHandler(HTTPDownloadHandler):
    """Stamps all requests with the monotonic time, which all processes of a machine share, after their checks."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        pool: Any = self._pool
        take = pool.take

        async def take_stamped(way: Way) -> HTTPConnection:
            connection: Any = await take(way)
            connection.send = partial(send_stamped, connection)
            return cast("HTTPConnection", connection)

        pool.take = take_stamped


def send_stamped(connection: HTTPConnection, method: str, head: bytes, *rest: Any, **options: Any) -> None:
    stamp = f"{_HEADER}: {time.monotonic()!r}\r\n\r\n".encode()
    HTTPConnection.send(connection, method, head.removesuffix(b"\r\n") + stamp, *rest, **options)


class SlowlyConnectingHandler(StampedHandler):
    """Takes long to open a connection, as over TLS to the other side of the world."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        pool: Any = self._pool
        connect = pool._connect

        async def connect_slowly(way: Way) -> HTTPConnection:
            await asyncio.sleep(CONNECT_SECONDS)
            return cast("HTTPConnection", await connect(way))

        pool._connect = connect_slowly


def sent_at(hits: Iterable[Hit]) -> list[float]:
    """When the requests were sent, in order, by their stamps."""
    return sorted(float(hit.headers[_HEADER]) for hit in hits)


def gaps_of(hits: Iterable[Hit]) -> list[float]:
    """The times between two requests that follow each other, in seconds, by their stamps."""
    return [after - before for before, after in pairwise(sent_at(hits))]
