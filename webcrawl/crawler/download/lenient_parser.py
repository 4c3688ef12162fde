"""Parses responses whose malformed heads browsers accept and aiohttp's parser rejects.

A rejected response is parsed again by a new parser, with its head repaired (`odd_heads`). The archive gets the repaired
head, with the status line and the lengths as they were sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError, TransferEncodingError
from aiohttp.streams import StreamReader

from webcrawl.crawler.download.odd_heads import MOST_INTERIM, is_regular, may_become_head, mend
from webcrawl.crawler.download.paced_connection import PacedConnection, Rate, break_body
from webcrawl.crawler.download.tls_gate import GatedConnector

LONGEST_HEAD = 128 * 1024
"""The most bytes of the head of a response, with the responses with a status of 1xx before it."""
_NOT_FRAMED = "the body is not framed as its head says"
_BLANK_LINE = re.compile(rb"\n\r?\n")
_CHUNKED = re.compile(rb"^transfer-encoding[ \t]*:[^\n]*chunked", re.IGNORECASE | re.MULTILINE)
_NOTHING_YET: tuple[tuple[()], bool, bytes] = ((), False, b"")
_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?", re.DOTALL)
_MOST_AROUND = 64 * 1024
"""The most bytes of one size line, or of all trailers together."""


def connector(**options: Any) -> aiohttp.TCPConnector:
    """Returns a connector of aiohttp whose connections parse responses leniently."""
    made = GatedConnector(**options)
    made._factory = cast("Any", partial(_LenientConnection, asyncio.get_running_loop(), Rate()))
    return made


class _LenientConnection(PacedConnection):
    """A connection of aiohttp, with a parser that repairs heads."""

    remarks: tuple[str, ...] = ()
    """Flags for the response: how its head is not as the standard says."""
    odd_head: bytes | None = None
    """The head as it was sent, for a response with remarks."""

    def set_response_params(self, **params: Any) -> None:
        self.begin_response()
        self.remarks, self.odd_head = (), None
        super().set_response_params(**params)
        if not self._buffer:
            self._parser = cast("Any", _HeadParser(self, self._parser, params))

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """Passes a parse error on to the reader of the body too, which aiohttp does not."""
        payload = self._payload
        super().set_exception(exc, *cause)
        if isinstance(exc, HttpProcessingError) and isinstance(payload, StreamReader):
            break_body(payload, _NOT_FRAMED, *cause)


class _HeadParser:
    """Parses the head of a response with aiohttp's parser, or repairs the head and gives it to another parser."""

    def __init__(self, connection: _LenientConnection, parser: Any, params: dict[str, Any]) -> None:
        self._connection = connection
        self._parser = parser
        self._params = params
        self._data = bytearray()
        self._size = 0
        self._is_beyond_limit = False
        """Whether more came than a client should read before the head of the final response."""
        self._interim = 0
        self._error: HttpProcessingError | None = None

    def pause_reading(self) -> None:
        self._parser.pause_reading()

    def feed_eof(self) -> Any:
        if self._error is not None:
            self._connection.set_exception(self._error)
            return None
        return self._parser.feed_eof()

    def feed_data(self, data: bytes) -> tuple[Any, bool, bytes]:
        """Returns what aiohttp's parser returns: messages with payloads, whether the protocol changes, and the rest."""
        self._data += data
        self._size += len(data)
        if self._error is None:
            try:
                return self._feed(data)
            except HttpProcessingError as error:
                if self._is_beyond_limit:
                    raise
                self._error = error
        return self._repaired(bytes(self._data[-len(data) - 3 :]), self._error)

    def _check(self, messages: Sequence[tuple[Any, Any]]) -> None:
        """Ends this parser at the final head; raises BadHttpMessage if too much comes before it."""
        interim = sum(100 <= message.code < 200 and message.code != 101 for message, _ in messages)
        if interim < len(messages):
            if not is_regular(self._data):
                self._remark_status_line()
            self._leave(_body_parser(self._connection, self._parser, messages))
            return
        self._interim += interim
        if self._interim > MOST_INTERIM:
            self._is_beyond_limit = True
            raise BadHttpMessage(f"more than {MOST_INTERIM} responses with a status of 1xx")
        if self._size > LONGEST_HEAD:
            self._is_beyond_limit = True
            raise BadHttpMessage(f"a head of more than {LONGEST_HEAD} bytes")
        if interim:
            del self._data[: self._data.rfind(b"\r\n\r\n") + 4]

    def _leave(self, parser: Any) -> None:
        self._connection._parser = parser
        self._connection.awaits_head = False

    def _feed(self, data: bytes) -> tuple[Any, bool, bytes]:
        """Passes data on to aiohttp's parser, and the body of a chunked response to the parser for its line ends."""
        head = _BLANK_LINE.search(self._data, max(0, len(self._data) - len(data) - 3))
        body = b""
        if head is not None and _CHUNKED.search(self._data, 0, head.end()):
            body_start = len(data) - (len(self._data) - head.end())
            data, body = data[:body_start], data[body_start:]
        parsed: tuple[Any, bool, bytes] = self._parser.feed_data(data)
        self._check(parsed[0])
        if body:
            parser: Any = self._connection._parser if parsed[0] else self._parser
            rest: tuple[Any, bool, bytes] = parser.feed_data(body)
            return [*parsed[0], *rest[0]], rest[1], rest[2]
        return parsed

    def _remark_status_line(self) -> None:
        """Notes a status line that aiohttp's parser reads; raises BadHttpMessage if browsers do not."""
        head = mend(bytes(self._data))
        if head is None:
            raise BadHttpMessage(f"Bad status line: {bytes(self._data[:50])!r}")
        self._connection.remarks, self._connection.odd_head = head.remarks, head.sent
        self._connection.force_close()

    def _repaired(self, end: bytes, error: HttpProcessingError) -> tuple[Any, bool, bytes]:
        """Parses the repaired head if it is complete, which the last bytes, `end`, may show; raises `error`."""
        head = mend(bytes(self._data)) if b"\n\n" in end or b"\n\r\n" in end else None
        if head is None:
            if len(self._data) > LONGEST_HEAD or not may_become_head(self._data):
                raise error
            return _NOTHING_YET
        connection = self._connection
        ResponseHandler.set_response_params(connection, **self._params)
        parser: Any = connection._parser
        messages = list(parser.feed_data(head.parsed)[0])
        if not messages:
            raise error
        connection.awaits_head = False
        connection.force_close()  # other software may see this response end elsewhere
        if head.remarks:
            connection.remarks, connection.odd_head = head.remarks, head.sent
        connection._parser = parser = _body_parser(connection, parser, messages)
        try:
            parser.feed_data(head.body)
        except HttpProcessingError as broken:
            break_body(messages[0][1], _NOT_FRAMED, broken)
        return messages, False, b""


def _body_parser(connection: _LenientConnection, parser: Any, messages: Sequence[tuple[Any, Any]]) -> Any:
    """Returns the parser for the body of the last of these messages; aiohttp's parser unless it is chunked."""
    if messages and messages[-1][0].chunked and isinstance(messages[-1][1], StreamReader):
        return FirstSizeLine(connection, parser, messages[-1][1])
    return parser


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
