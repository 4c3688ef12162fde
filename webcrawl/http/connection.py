"""A connection to a server: sends a request, and receives its response at the pace of its reader.

Chunks of a few bytes cost more than their bytes. So bytes are parsed piece by piece, and small chunks beyond
`FREE_CHUNKS` wait for a rate that all connections share. A body fails at more than `MOST_CHUNKS` small chunks, or if
its extensions and trailers go on for `MOST_FRAMING` bytes without a byte of content.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections import deque
from typing import cast

from webcrawl.errors import BrokenTransfer, CrawlError, Disconnected, Unconfirmed
from webcrawl.http.bodies import ChunkedBody, Framing, SizedBody, framing_of, is_more
from webcrawl.http.heads import HeadReader, ResponseHead

PIECE = 8 * 1024
"""Bytes that are parsed at a time while small chunks arrive."""
_LARGE_PIECE = 256 * 1024
SMALL = 128
"""Chunks with fewer bytes on average, framing included, count as small."""
FREE_CHUNKS = 2_000
MOST_CHUNKS = 200_000
CHUNKS_PER_SECOND = 50_000
"""The rate of small chunks of all connections."""
MOST_FRAMING = 1024 * 1024
_MOST_WAITING = 512 * 1024
"""Bytes that may wait to be parsed."""
_READ_AHEAD = 1024 * 1024
"""Bytes of a body that may wait for their reader."""
LEAST_READ_AHEAD = 256 * 1024
MOST_READ_AHEAD = 32 * 1024 * 1024
"""Bytes of all bodies that wait for their readers, beyond which LEAST_READ_AHEAD of each may wait."""
# uvloop's TLS loses the end of a body if reading is paused when the server closes
_TLS_READ_AHEAD = 8 * 1024 * 1024
_CONTINUE_SECONDS = 1.0
"""The time after which a body is sent to a server that does not say whether it wants it (RFC 9110, section 10.1.1)."""
_GIVEN_UP = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)
_NO_LINGER = struct.pack("ii", 1, 0)


class Rate:
    """The time at which the next small chunks may be parsed, for the connections of one client."""

    def __init__(self) -> None:
        self._free_at = 0.0

    def take(self, chunks: int, now: float) -> float:
        """Returns the seconds to wait after parsing so many chunks."""
        self._free_at = max(self._free_at, now) + chunks / CHUNKS_PER_SECOND
        return self._free_at - now


class BodyReadAhead:
    """The bytes of bodies that wait for their readers, at all connections of one client."""

    def __init__(self) -> None:
        self.bytes = 0

    def most(self, usual: int) -> int:
        """Returns how many bytes of one body may wait; `usual`: while there is room."""
        return usual if self.bytes <= MOST_READ_AHEAD else LEAST_READ_AHEAD


class HTTPConnection(asyncio.Protocol):
    """A connection, which has one request at a time.

    received     bytes received so far, with heads and framing
    requests     requests sent so far
    peer         the address of the server, or of its proxy
    certificate  the certificate of the server in DER; None without TLS
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, rate: Rate, ahead: BodyReadAhead | None = None
    ) -> None:
        self.transport: asyncio.Transport | None = None
        self.received = 0
        self.requests = 0
        self.peer: str | None = None
        self.certificate: bytes | None = None
        self.idle_timer: asyncio.TimerHandle | None = None
        """The timer that ends a connection that waits for a request."""
        self._loop = loop
        self._rate = rate
        self._ahead = ahead or BodyReadAhead()
        self._held = 0
        self._read_ahead = _READ_AHEAD
        self._is_paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._waiting = bytearray()
        self._delayed: asyncio.TimerHandle | None = None
        self._reader: HeadReader | None = None
        self._clear("")

    def _clear(self, method: str) -> None:
        self._method = method
        self._head: ResponseHead | None = None
        self._body: Framing | None = None
        self._pieces: deque[bytes] = deque()
        self._ahead.bytes -= self._held
        self._held = 0
        self._error: Exception | None = None
        self._unsent = b""
        self._small_chunks = self._framing = 0

    # the side of the client

    @property
    def is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    @property
    def is_paused(self) -> bool:
        """Whether nothing is read from the connection for now."""
        return self._is_paused

    @property
    def is_complete(self) -> bool:
        """Whether the response has been received to its end."""
        return self._body is not None and self._body.is_complete

    @property
    def is_at_end(self) -> bool:
        """Whether the response has been read to its end."""
        return self.is_complete and not self._pieces

    @property
    def is_reusable(self) -> bool:
        """Whether the connection may send another request."""
        body, head = self._body, self._head
        if body is None or head is None or not (body.is_complete and head.keeps_open and self.is_open):
            return False
        is_certain = body.is_standard if isinstance(body, ChunkedBody) else not body.ends_with_connection
        return is_certain and not (body.has_excess or self._error or self._unsent or self._is_paused)

    def send(self, method: str, head: bytes, body: bytes = b"", *, waits: bool = False) -> None:
        """Sends a request. `waits`: the body is sent when the server asks for it, or does not answer for a second."""
        self._clear(method)
        self._reader = HeadReader()
        self.requests += 1
        if self.transport is None or self.transport.is_closing():
            raise Disconnected("Server disconnected")
        if waits and body:
            self._unsent = body
            self._loop.call_later(_CONTINUE_SECONDS, self._send_rest, self._reader)
            body = b""
        self.transport.write(head + body)

    async def head(self) -> ResponseHead:
        """Returns the head of the response; raises MalformedHead, Disconnected, Unconfirmed."""
        while self._head is None:
            if self._error is not None:
                raise self._error
            await self._wait()
        return self._head

    async def read(self) -> bytes:
        """Returns the next bytes of the body, b"" at its end; raises BrokenTransfer, and what `fail` was given."""
        while not self._pieces:
            if self._error is not None:
                raise self._error
            if self.is_complete:
                return b""
            await self._wait()
        piece = self._pieces.popleft()
        self._held -= len(piece)
        self._ahead.bytes -= len(piece)
        if self._is_paused:
            self._throttle()
        return piece

    def fail(self, error: Exception) -> None:
        """Ends the response with an exception, unless it is complete; the bytes received can still be read."""
        if self._error is None and not self.is_complete:
            self._error = error
            self._wake()

    def refuse(self, why: str) -> None:
        """Ends the response and its connection because of what the server sends."""
        self.fail(Disconnected(why) if self._head is None else BrokenTransfer(why))
        self.abort()

    def abort(self) -> None:
        """Closes the connection at once."""
        if self.transport is not None:
            self.transport.abort()

    def leave(self) -> None:
        """Closes the connection, whose response is not read any more."""
        # TLS has no socket in the moment after it was closed
        opened = self.transport.get_extra_info("socket") if self.transport is not None else None
        if self._reader is not None and opened is not None:
            # the system would go on to send a request that the server does not confirm
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.abort()
        self._reader = None
        self._clear("")

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _send_rest(self, reader: HeadReader | None) -> None:
        """Sends the body that has waited, if the response to its request has not begun."""
        if self._unsent and self.transport is not None and reader is self._reader:
            self.transport.write(self._unsent)
            self._unsent = b""

    # the side of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports derive from no such class
        self.transport = cast("asyncio.Transport", transport)
        peername = transport.get_extra_info("peername")
        self.peer = peername[0].partition("%")[0] if peername else None
        if tls := transport.get_extra_info("ssl_object"):
            self.certificate = tls.getpeercert(binary_form=True)
            self._read_ahead = _TLS_READ_AHEAD

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if self._delayed is None:
            self._parse(data)
        else:
            self._waiting += data
            self._throttle()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self._delayed is not None:
            self._delayed.cancel()
            self._go_on()
        if self._error is None:
            self._end(exc)
        self._wake()

    def _end(self, cause: Exception | None) -> None:
        """Ends the response with the connection."""
        body = self._body
        if body is None:
            try:
                if self._reader is not None:
                    self._reader.check_lines()
                given_up = isinstance(cause, OSError) and cause.errno in _GIVEN_UP
                kind = Unconfirmed if given_up else Disconnected
                self._error = kind(str(cause or "") or "Server disconnected")
            except CrawlError as error:
                self._error = error
        elif isinstance(body, SizedBody) and body.ends_with_connection and cause is None:
            body.is_complete = True
        elif not body.is_complete:
            self._error = BrokenTransfer(
                str(cause or "") or "the connection was closed before the end of the body"
            )

    def _parse(self, data: bytes) -> None:
        body = self._body
        if body is None and self._reader is not None:
            data = self._parse_head(data)
            body = self._body
        elif body is None or body.is_complete:
            if is_more(data):
                self.abort()  # the server sends more than it was asked for
            return
        if isinstance(body, ChunkedBody):
            self._parse_chunks(body, data)
        elif body is not None and data:
            self._deliver(body.feed(data))
        if body is not None and body.is_complete:
            self._wake()
            if body.has_excess:
                self.abort()

    def _parse_head(self, data: bytes) -> bytes:
        """Returns the bytes after the head."""
        assert self._reader is not None
        try:
            parsed = self._reader.feed(data)
        except CrawlError as error:
            self.fail(error)
            self.abort()
            return b""
        if parsed is None:
            if self._reader.interim:
                self._send_rest(self._reader)
            return b""
        self._head, rest = parsed
        self._reader = None
        self._body = framing_of(self._head, self._method)
        self._wake()
        if rest and self._body.is_complete:
            self._body.has_excess = is_more(rest)
            return b""
        return rest

    def _parse_chunks(self, body: ChunkedBody, data: bytes) -> None:
        position, size = 0, PIECE
        while position < len(data) and self._error is None:
            piece = data[position : position + size]
            position += len(piece)
            content = body.feed(piece)
            self._deliver(content)
            if body.is_complete:
                body.has_excess = body.has_excess or is_more(data[position:])
                return
            self._framing = 0 if content else self._framing + len(piece)
            if body.error is not None:
                self.refuse(body.error)
            elif self._framing > MOST_FRAMING:
                self.refuse(
                    f"the body has more than {MOST_FRAMING} bytes in a row that are none of its content"
                )
            small = body.chunks - len(piece) // SMALL
            if small > 0 and self._defer(small, data[position:]):
                return
            size = PIECE if small > 0 else _LARGE_PIECE

    def _defer(self, small: int, rest: bytes) -> bool:
        """Counts small chunks; returns True if the bytes after them must wait or are refused."""
        self._small_chunks += small
        if self._small_chunks > MOST_CHUNKS:
            self.refuse(f"the body has more than {MOST_CHUNKS} chunks of less than {SMALL} bytes")
            return True
        if self._small_chunks <= FREE_CHUNKS or self.transport is None:
            return False
        self._waiting += rest
        self._delayed = self._loop.call_later(self._rate.take(small, self._loop.time()), self._go_on)
        return True

    def _go_on(self) -> None:
        """Parses the bytes that have waited."""
        self._delayed = None
        data = bytes(self._waiting)
        self._waiting.clear()
        if data and self._error is None:
            self._parse(data)
        self._throttle()

    def _deliver(self, content: bytes) -> None:
        if content:
            self._pieces.append(content)
            self._held += len(content)
            self._ahead.bytes += len(content)
            self._wake()
            if self._held > LEAST_READ_AHEAD:
                self._throttle()

    def _throttle(self) -> None:
        """Pauses the connection while too much waits, and goes on when half of that is left."""
        share = 2 if self._is_paused else 1
        most = self._ahead.most(self._read_ahead)
        is_full = self._held * share > most or len(self._waiting) * share > _MOST_WAITING
        if is_full != self._is_paused and self.transport is not None and not self.transport.is_closing():
            self._is_paused = is_full
            if is_full:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()
