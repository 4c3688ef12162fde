"""A connection of aiohttp that bounds the cost of heads and chunks of a few bytes.

The parser calls Python for each head and each chunk, which takes 3 to 10 microseconds: 250 KB of chunks of one byte
that arrive at once would hold the event loop for 0.2 s. So bytes are parsed piece by piece. Small chunks beyond
`FREE_CHUNKS` wait for a rate that all connections share. A body fails at more than `MOST_CHUNKS` small chunks, or if
its extensions and trailers go on for `MOST_FRAMING` bytes without a byte of content.
"""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.streams import StreamReader

PIECE = 8 * 1024
"""Bytes that are parsed at a time while a head or small chunks arrive."""
_LARGE_PIECE = 256 * 1024
SMALL = 128
"""Chunks with fewer bytes on average, framing included, count as small."""
FREE_CHUNKS = 2_000
MOST_CHUNKS = 200_000
CHUNKS_PER_SECOND = 50_000
"""The rate of small chunks of all connections, which takes about a fifth of the processor."""
MOST_FRAMING = 1024 * 1024
_MOST_WAITING = 512 * 1024


class Rate:
    """The time at which the next small chunks may be parsed, for the connections of one client."""

    def __init__(self) -> None:
        self._free_at = 0.0

    def take(self, chunks: int, now: float) -> float:
        """Returns the seconds to wait after parsing so many chunks."""
        self._free_at = max(self._free_at, now) + chunks / CHUNKS_PER_SECOND
        return self._free_at - now


class PacedConnection(ResponseHandler):
    """A connection. `awaits_head`: the head of the final response is not complete. `received`: bytes so far."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rate: Rate) -> None:
        super().__init__(loop)
        self.awaits_head = True
        self.received = 0
        self._rate = rate
        self._small_chunks = 0
        self._framing = 0
        """Bytes since the last byte of content."""
        self._waiting = bytearray()
        self._delayed: asyncio.TimerHandle | None = None

    @property
    def is_paused(self) -> bool:
        """Whether nothing is read from the connection for now."""
        return bool(self._reading_paused or self._buffer_paused)

    def begin_response(self) -> None:
        """Notes that a request is sent."""
        self.awaits_head = True
        self._small_chunks = self._framing = 0

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if self._delayed is None and data:
            self._parse(data)
        elif data:
            self._waiting += data
            # not earlier: uvloop's TLS loses the end of a body if reading is paused when the server closes
            if len(self._waiting) > _MOST_WAITING and not self._buffer_paused:
                self._pause_reading_for_buffer()
        else:  # the parser goes on with its bytes after a slow reader
            super().data_received(data)

    def resume_reading(self, resume_parser: bool = True) -> None:
        # aiohttp calls it for each chunk that is read, paused or not
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._delayed is not None:
            self._stop_waiting()
            super().data_received(bytes(self._waiting))
        self._waiting.clear()
        super().connection_lost(exc)

    def _parse(self, data: bytes) -> None:
        if not self._upgraded and self._is_answered():
            self._refuse_more()
            return
        position, size = 0, PIECE
        while True:
            piece = data[position:] if self._is_plain() else data[position : position + size]
            before, content = self._chunks(), self._content()
            super().data_received(piece)
            position += len(piece)
            if self.transport is None or self.transport.is_closing() or self._is_framing(len(piece), content):
                return
            small = self._chunks() - before - len(piece) // SMALL
            if small > 0 and self._defer(small, data[position:]):
                return
            if position >= len(data):
                return
            if self._is_answered():
                self._refuse_more()
                return
            size = PIECE if self.awaits_head or small > 0 else _LARGE_PIECE

    def _is_answered(self) -> bool:
        """Whether the response has ended, and no other request was sent."""
        return not self.awaits_head and self._payload is not None and self._payload.is_eof()

    def _refuse_more(self) -> None:
        """Closes a connection whose server sends more than it was asked for."""
        self.force_close()
        if self.transport is not None:
            self.transport.close()

    def _is_plain(self) -> bool:
        """Whether the rest of the response is a body without chunks."""
        return not self.awaits_head and getattr(self._payload, "_http_chunk_splits", None) is None

    def _chunks(self) -> int:
        return len(getattr(self._payload, "_http_chunk_splits", None) or ())

    def _content(self) -> int:
        """Bytes of the body so far."""
        return self._payload.total_bytes if isinstance(self._payload, StreamReader) else 0

    def _is_framing(self, size: int, content: int) -> bool:
        """Refuses a body with too many bytes without content; `content` is the number of bytes of content before."""
        waits = self.awaits_head or self._upgraded or self._reading_paused or self._buffer_paused
        if waits or self._content() > content:
            self._framing = 0
            return False
        self._framing += size
        if self._framing > MOST_FRAMING:
            self._break(f"the body has more than {MOST_FRAMING} bytes in a row that are none of its content")
        return self._framing > MOST_FRAMING

    def _defer(self, small: int, rest: bytes) -> bool:
        """Counts small chunks; returns True if the bytes after them must wait or are refused."""
        self._small_chunks += small
        if self._small_chunks > MOST_CHUNKS:
            self._break(f"the body has more than {MOST_CHUNKS} chunks of less than {SMALL} bytes")
            return True
        if self._small_chunks <= FREE_CHUNKS:
            return False
        self._waiting += rest
        self._delayed = self._loop.call_later(self._rate.take(small, self._loop.time()), self._go_on)
        return True

    def _go_on(self) -> None:
        """Parses the bytes that have waited."""
        self._delayed = None
        data = bytes(self._waiting)
        self._waiting.clear()
        if self.transport is None:
            return
        if data:
            self._parse(data)
        if self._buffer_paused and len(self._waiting) <= _MOST_WAITING // 2:
            self._resume_reading_for_buffer()

    def _break(self, why: str) -> None:
        payload = self._payload
        if isinstance(payload, StreamReader):
            break_body(payload, why)
        self._refuse_more()

    def _stop_waiting(self) -> None:
        if self._delayed is not None:
            self._delayed.cancel()
            self._delayed = None


def break_body(payload: StreamReader, why: str, *cause: BaseException) -> None:
    """Makes the reader of a body fail, unless it has ended or failed."""
    if not payload.is_eof() and payload.exception() is None:
        payload.set_exception(aiohttp.ClientPayloadError(why), *cause)
