"""A download handler that tells the server when each request was sent, in a header.

The time at which a server's thread comes to read a request shows gaps too short when the machine is busy.
"""

from __future__ import annotations

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


def gaps_of(hits: Iterable[Hit]) -> list[float]:
    """The times between two requests that follow each other, in seconds, by their stamps."""
    sent = sorted(float(hit.headers[_HEADER]) for hit in hits)
    return [after - before for before, after in pairwise(sent)]
