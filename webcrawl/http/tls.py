"""TLS on a connection. Passes the bytes of a server on piece by piece, and ends one that sends little content in them.

A server may send messages of TLS without end, such as tickets for later sessions, and records of one byte. OpenSSL
reads all that it has before it returns, 5 microseconds for a ticket of 18 bytes, and uvloop reads up to 8 MB of a
socket at once: the event loop would stand still for seconds.
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import ssl
from typing import Any, cast

from webcrawl.errors import Disconnected
from webcrawl.http.connection import HTTPConnection

PIECE = 16 * 1024
"""Bytes that OpenSSL gets at a time: 5 ms of tickets."""
_LARGE_PIECE = 64 * 1024
"""Bytes that OpenSSL gets after a piece with content."""
MOST_BARE = 64 * 1024
"""The most bytes with little content after the handshake: 20 ms of tickets."""
MOST_HANDSHAKE = 192 * 1024
"""The most bytes of a handshake; OpenSSL takes chains of certificates of up to 100 KB."""
_CONTENT = 4
"""A piece counts as content if one byte in so many of it is."""
_FORGIVEN = 16
"""One byte with little content is forgiven for so many bytes with content."""


async def encrypt(app: HTTPConnection, context: ssl.SSLContext, name: str) -> None:
    """Begins TLS on an open connection to the host of this name; raises OSError, which ssl.SSLError is."""
    loop, transport = asyncio.get_running_loop(), app.transport
    if transport is None:
        raise Disconnected("Server disconnected")
    app.transport = None  # until the handshake ends
    shaken = loop.create_future()
    tls = _implementation(loop)(loop, app, context, shaken, server_hostname=name)
    gate = TLSGate(tls, app)
    transport.set_protocol(gate)
    gate.connection_made(transport)
    try:
        await shaken
        if gate.flood is not None:
            raise gate.flood
        if app.transport is None:  # uvloop does not say so
            raise ConnectionResetError
    except BaseException:
        transport.abort()
        raise


class TLSGate(asyncio.Protocol):
    """The protocol under TLS: passes bytes to `tls`, the event loop's own implementation, a piece at a time.

    `app` is the protocol above TLS. `flood`: why the gate ended the connection.
    """

    def __init__(self, tls: Any, app: HTTPConnection) -> None:
        self._tls = tls
        self._app = app
        self._transport: asyncio.Transport | None = None
        self._bare = 0
        self._piece = PIECE
        self.flood: Disconnected | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports derive from no such class
        self._transport = cast("asyncio.Transport", transport)
        self._tls.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        start = 0
        while start < len(data):
            piece = data[start : start + self._piece]
            start += len(piece)
            shakes, before = self._app.transport is None, self._app.received
            self._tls.get_buffer(len(piece))[: len(piece)] = piece
            self._tls.buffer_updated(len(piece))
            if self._transport is None or self._transport.is_closing():
                return
            if not self._is_content(len(piece), before, shakes=shakes):
                self._refuse()
                return

    def eof_received(self) -> bool | None:
        keeps_open: bool | None = self._tls.eof_received()
        return keeps_open

    def connection_lost(self, exc: Exception | None) -> None:
        self._tls.connection_lost(exc)
        self._transport = None

    def pause_writing(self) -> None:
        self._tls.pause_writing()

    def resume_writing(self) -> None:
        self._tls.resume_writing()

    def _is_content(self, size: int, before: int, *, shakes: bool) -> bool:
        """Counts a piece; returns False if there was too little content."""
        if shakes:
            self._bare += size
            if self._app.transport is not None:  # this piece has ended the handshake
                self._bare = 0
            return self._bare <= MOST_HANDSHAKE
        if (self._app.received - before) * _CONTENT >= size:
            self._bare = max(0, self._bare - size // _FORGIVEN)
            self._piece = _LARGE_PIECE
        elif not self._app.is_paused:
            self._bare += size
            self._piece = PIECE
        return self._bare <= MOST_BARE

    def _refuse(self) -> None:
        self.flood = Disconnected(f"the server sends {self._bare:,} bytes of TLS with little or no content")
        if self._app.transport is not None:
            self._app.refuse(str(self.flood))
        if self._transport is not None:
            self._transport.abort()


def _implementation(loop: asyncio.AbstractEventLoop) -> Any:
    """Returns the class that speaks TLS on this event loop."""
    if type(loop).__module__.startswith("uvloop"):
        from uvloop import loop as implementation

        return cast("Any", implementation).SSLProtocol  # its stub leaves it out
    return asyncio.sslproto.SSLProtocol
