"""Limits the sockets that a client opens to find an address of a host that accepts the connection.

aiohttp tries the next address after a quarter of a second, while earlier attempts go on. When all have failed, it tries
all but the first again. For one request, a name with 50 addresses would take 50 sockets, or 1,275 attempts.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from webcrawl.hosts.dns import MOST_TRIED

MOST_FURTHER = 64
"""Sockets of all requests, not counting each first attempt: names that do not answer must not take all open files."""


class Attempts:
    """The attempts of one client. `further`: how many are not the first attempt of a request."""

    def __init__(self) -> None:
        self.further = 0

    @contextmanager
    def of_request(self) -> Iterator[None]:
        """Counts the attempts in this context as attempts of one request."""
        token = _now.set(_Request(self))
        try:
            yield
        finally:
            note_connected()
            _now.reset(token)


class _Request:
    """The attempts of a request: `number` of them all, `further` of those that count for its client."""

    __slots__ = ("client", "further", "number")

    def __init__(self, client: Attempts) -> None:
        self.client = client
        self.number = self.further = 0


_now: ContextVar[_Request | None] = ContextVar("attempts", default=None)


def note_connected() -> None:
    """Notes that the request of this context needs no further attempt."""
    if (request := _now.get()) is not None:
        request.client.further -= request.further
        request.number = request.further = 0


def open_socket(info: tuple[Any, ...]) -> socket.socket:
    """Opens a socket for an address from `getaddrinfo`; raises OSError if the address may not be tried."""
    if (request := _now.get()) is not None:
        if request.number:
            if request.number >= MOST_TRIED or request.client.further >= MOST_FURTHER:
                raise OSError(errno.EAGAIN, "no further address is tried")
            request.further += 1
            request.client.further += 1
        request.number += 1
    family, kind, protocol, *_ = info
    return socket.socket(family=family, type=kind, proto=protocol)
