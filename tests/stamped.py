"""A download handler that tells the server when each request was sent, in a header.

The time at which a server's thread comes to read a request shows gaps too short when the machine is busy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import aiohttp

from tests.web import Hit
from webcrawl.crawler.download.http import HTTPDownloadHandler
from webcrawl.crawler.download.wire import WireRequest

HANDLERS = '{"http": "tests.stamped.StampedHandler"}'
"""The value of DOWNLOAD_HANDLERS."""
SLOWLY = '{"http": "tests.stamped.SlowlyConnectingHandler"}'
"""The same, with connections that take CONNECT_SECONDS to open."""
CONNECT_SECONDS = 0.4
STAMP_SECONDS = 0.002
"""By how much the stamps may show a gap too short: a process may be suspended before it stamps a request."""
_HEADER = "X-Sent"


class _Stamped(aiohttp.ClientRequest):
    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        self.headers[_HEADER] = repr(time.monotonic())
        return await super().send(conn)


class _StampedRequest(WireRequest, _Stamped):
    """Is stamped when its checks are done."""


class StampedHandler(HTTPDownloadHandler):
    """Stamps all requests with the monotonic time, which all processes of a machine share."""

    def _open(self) -> aiohttp.ClientSession:
        client = super()._open()
        client._request_class = _StampedRequest
        return client


class SlowlyConnectingHandler(StampedHandler):
    """Takes long to open a connection, as over TLS to the other side of the world."""

    def _open(self) -> aiohttp.ClientSession:
        client = super()._open()
        connector: Any = client.connector
        create = connector._create_connection

        async def create_slowly(*arguments: Any) -> Any:
            await asyncio.sleep(CONNECT_SECONDS)
            return await create(*arguments)

        connector._create_connection = create_slowly
        return client


def sent_at(hits: Iterable[Hit]) -> list[float]:
    """When the requests were sent, in order, by their stamps."""
    return sorted(float(hit.headers[_HEADER]) for hit in hits)


def gaps_of(hits: Iterable[Hit]) -> list[float]:
    """The times between two requests that follow each other, in seconds, by their stamps."""
    return [after - before for before, after in pairwise(sent_at(hits))]
