"""Parses responses whose malformed heads browsers accept and aiohttp's parser rejects.

A rejected response is parsed again by a new parser, with its head repaired. The archive gets the repaired head.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader

_LONGEST = 128 * 1024
_HEAD = re.compile(rb"HTTP/\d\.\d ([2-5]\d\d)\b.*?\n\r?\n", re.DOTALL)
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:(.*)", re.DOTALL)
_SPACED = bytes.maketrans(b"\0\r", b"  ")
_NO_BODY = (b"204", b"304")
_NOTHING_YET: tuple[tuple[()], bool, bytes] = ((), False, b"")


def connector(**options: Any) -> aiohttp.TCPConnector:
    """Returns a connector of aiohttp whose connections parse responses leniently."""
    made = aiohttp.TCPConnector(**options)
    made._factory = cast("Any", partial(_LenientConnection, loop=asyncio.get_running_loop()))
    return made


class _LenientConnection(ResponseHandler):
    """A connection of aiohttp, with a parser that repairs heads."""

    def set_response_params(self, **params: Any) -> None:
        super().set_response_params(**params)
        if not self._buffer:
            self._parser = cast("Any", _HeadParser(self, self._parser, params))

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """Passes a parse error on to the reader of the body, too; aiohttp does not."""
        payload = self._payload
        super().set_exception(exc, *cause)
        if isinstance(exc, HttpProcessingError) and isinstance(payload, StreamReader):
            _break(payload, *cause)


def _break(payload: StreamReader, *cause: BaseException) -> None:
    if not payload.is_eof() and payload.exception() is None:
        payload.set_exception(aiohttp.ClientPayloadError("the body is not framed as its head says"), *cause)


class _HeadParser:
    """Parses until the head of a response is complete: with aiohttp's parser, or repaired with another one."""

    def __init__(self, connection: _LenientConnection, parser: Any, params: dict[str, Any]) -> None:
        self._connection = connection
        self._parser = parser
        self._params = params
        self._data = bytearray()
        self._error: HttpProcessingError | None = None

    def pause_reading(self) -> None:
        self._parser.pause_reading()

    def feed_eof(self) -> Any:
        if self._error is not None:
            self._connection.set_exception(self._error)
            return None
        return self._parser.feed_eof()

    def feed_data(self, data: bytes) -> tuple[Any, bool, bytes]:
        """Returns as aiohttp's parser: messages with payloads, whether the protocol is upgraded, and the rest."""
        self._data += data
        if self._error is None:
            try:
                found: tuple[Any, bool, bytes] = self._parser.feed_data(data)
            except HttpProcessingError as error:
                self._error = error
            else:
                if found[0] or len(self._data) > _LONGEST:
                    self._connection._parser = self._parser
                return found
        end = self._data[-len(data) - 3 :]
        if b"\n\n" in end or b"\n\r\n" in end:
            return self._repaired(self._error)
        if len(self._data) > _LONGEST or not self._data.startswith(b"HTTP/"):
            raise self._error
        return _NOTHING_YET

    def _repaired(self, error: HttpProcessingError) -> tuple[Any, bool, bytes]:
        parts = mend(bytes(self._data))
        if parts is None:
            raise error
        head, body = parts
        connection = self._connection
        ResponseHandler.set_response_params(connection, **self._params)
        parser: Any = connection._parser
        messages = list(parser.feed_data(head)[0])
        if not messages:
            raise error
        connection.force_close()  # other software may see this response end elsewhere
        try:
            parser.feed_data(body)
        except HttpProcessingError as broken:
            _break(messages[0][1], broken)
        return messages, False, b""


def mend(data: bytes) -> tuple[bytes, bytes] | None:
    """Returns the repaired head of a response and the bytes after it; None if it cannot be repaired.

    Lines without a valid name are left out, and NUL and CR in a value become spaces (RFC 9110, section 5.5). As in
    browsers, Transfer-Encoding overrides Content-Length if it is chunked, and is ignored otherwise.
    """
    head = _HEAD.match(data)
    if head is None:
        return None
    status, *lines = (line.rstrip(b"\r").translate(_SPACED) for line in head[0].rstrip().split(b"\n"))
    fields = list(_fields(lines))
    chunked = any(
        name.lower() == b"transfer-encoding" and b"chunked" in value.lower() for name, value in fields
    )
    ignored = b"content-length" if chunked else b"transfer-encoding"
    kept = [name + b": " + value for name, value in fields if name.lower() != ignored]
    body = b"" if head[1] in _NO_BODY else data[head.end() :]
    return b"\r\n".join([status, *kept, b"", b""]), body


def _fields(lines: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yields names and values of valid lines; a line that begins with white space continues the one before."""
    name, value = b"", b""
    for line in lines:
        if line[:1] in (b" ", b"\t"):
            value += b" " + line.strip()
            continue
        if name:
            yield name, value
        field = _FIELD.fullmatch(line)
        name, value = (field[1], field[2].strip()) if field else (b"", b"")
    if name:
        yield name, value
