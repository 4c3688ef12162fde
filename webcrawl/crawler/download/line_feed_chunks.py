"""Chunked bodies whose lines end with LF alone, which aiohttp's parser rejects and curl reads."""

from __future__ import annotations

import re
from typing import Any, Literal

from aiohttp.http_exceptions import TransferEncodingError
from aiohttp.streams import StreamReader

_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?", re.DOTALL)
_MOST_AROUND = 64 * 1024
"""The most bytes of one size line, or of all trailers together."""
_NOTHING_YET: tuple[tuple[()], bool, bytes] = ((), False, b"")


class FirstSizeLine:
    """Reads the first size line of a chunked body, and lets `parser` or LineFeedChunks read the body."""

    def __init__(self, connection: Any, parser: Any, payload: StreamReader) -> None:
        self._connection = connection
        self._parser = parser
        self._payload = payload
        self._data = b""

    def pause_reading(self) -> None:
        self._parser.pause_reading()

    def feed_eof(self) -> Any:
        return self._parser.feed_eof()

    def feed_data(self, data: bytes) -> Any:
        """Returns what aiohttp's parser returns."""
        self._data += data
        line, end, _ = self._data.partition(b"\n")
        if not end and len(self._data) <= _MOST_AROUND:
            return _NOTHING_YET
        if end and not line.endswith(b"\r"):
            self._connection.force_close()  # other software may see this response end elsewhere
            self._parser = LineFeedChunks(self._payload)
        self._connection._parser = self._parser
        return self._parser.feed_data(self._data)


class LineFeedChunks:
    """Parses a chunked body (RFC 9112, section 7.1) in which each line ends with LF or CRLF."""

    def __init__(self, payload: StreamReader) -> None:
        self._payload = payload
        self._data = bytearray()
        self._left = 0
        self._trailers = 0
        self._next: Literal["size", "end of chunk", "trailer", "nothing"] = "size"

    def pause_reading(self) -> None:
        """Does nothing: the connection receives no more bytes, and the received bytes are passed on."""

    def feed_eof(self) -> None:
        if self._next != "nothing":
            raise TransferEncodingError("the body ends before its last chunk")

    def feed_data(self, data: bytes) -> Any:
        """Returns what aiohttp's parser returns; raises TransferEncodingError for an invalid line."""
        if self._next != "nothing":
            self._data += data
            while self._take_data() if self._left else self._take_line():
                pass
        return _NOTHING_YET

    def _take_data(self) -> bool:
        data = bytes(self._data[: self._left])
        del self._data[: len(data)]
        self._left -= len(data)
        if data:
            self._payload.feed_data(data)
        return bool(data)

    def _take_line(self) -> bool:
        """Reads one line; returns False if it is incomplete, or was the last line."""
        end = self._data.find(b"\n")
        if end < 0:
            _check(len(self._data) <= _MOST_AROUND, self._data)
            return False
        line = bytes(self._data[:end]).removesuffix(b"\r")
        del self._data[: end + 1]
        if self._next == "size":
            size = _SIZE.fullmatch(line)
            _check(size is not None, line)
            self._left = int(size[1], 16) if size else 0
            self._next = "end of chunk" if self._left else "trailer"
            if self._left:
                self._payload.begin_http_chunk_receiving()
        elif self._next == "end of chunk":
            _check(not line, line)
            self._payload.end_http_chunk_receiving()
            self._next = "size"
        else:
            self._trailers += len(line)
            _check(self._trailers <= _MOST_AROUND, line)
            if not line:
                self._next = "nothing"
                self._payload.feed_eof()
        return self._next != "nothing"


def _check(valid: bool, line: bytes | bytearray) -> None:
    if not valid:
        raise TransferEncodingError(f"{bytes(line[:50])!r} is not a line of a chunked body")
