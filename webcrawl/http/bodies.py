"""Bodies of responses by their framing (RFC 9112, section 6): by length, by the end of the connection, in chunks."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from http import HTTPStatus
from typing import TypeAlias

import httptools

from webcrawl.http.heads import ResponseHead

_HEAD_OF_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?", re.DOTALL)
_EXTENSIONS = re.compile(rb'(?:;[\w.-]+(?:=(?:[\w.-]+|"[\w .-]*"))?)*')
"""The extensions of a chunk that llhttp reads for certain."""
_MOST_AROUND = 64 * 1024
"""The most bytes of one size line, or of all trailers together."""
NOT_FRAMED = "the body is not framed as its head says"


class SizedBody:
    """A body of a given length; the end of the connection ends a body of no length (None).

    `is_complete`: its last byte has come. `has_excess`: the server sent more. `error`: why the rest cannot be read.
    """

    error: str | None = None
    has_excess = False

    def __init__(self, length: int | None) -> None:
        self._left = length
        self.is_complete = length == 0

    @property
    def ends_with_connection(self) -> bool:
        return self._left is None

    def feed(self, data: bytes) -> bytes:
        """Returns the content in the next bytes."""
        if self._left is None:
            return data
        if len(data) > self._left:
            self.has_excess = is_more(data[self._left :])
            data = data[: self._left]
        self._left -= len(data)
        self.is_complete = not self._left
        return data


class ChunkedBody:
    """A body in chunks. `chunks`: how many were in the bytes fed last. The others are those of SizedBody.

    llhttp reads it, unless the first line ends with LF alone: then every line may, as in curl. llhttp also refuses some
    extensions of chunks, which nobody uses.
    """

    ends_with_connection = False

    def __init__(self) -> None:
        self.is_complete = self.has_excess = False
        self.error: str | None = None
        self.chunks = 0
        self._start = b""
        self._parser: _StandardChunks | _LineFeedChunks | None = None

    @property
    def is_standard(self) -> bool:
        """Whether other software sees the body end at the same byte."""
        return isinstance(self._parser, _StandardChunks)

    def feed(self, data: bytes) -> bytes:
        """Returns the content in the next bytes."""
        parser = self._parser
        if parser is None:
            data = self._start + data
            line, end, _ = data.partition(b"\n")
            if not end and len(data) <= _MOST_AROUND:
                self._start = data
                return b""
            is_standard = not end or (line.endswith(b"\r") and _has_plain_extensions(line))
            parser = self._parser = _StandardChunks() if is_standard else _LineFeedChunks()
        try:
            parser.feed(data)
        except (httptools.HttpParserError, ValueError):
            # after the end, the error is about what follows
            self.has_excess = parser.is_complete
            self.error = None if parser.is_complete else NOT_FRAMED
        self.is_complete = parser.is_complete
        self.chunks = len(parser.pieces)
        content = b"".join(parser.pieces)
        parser.pieces.clear()
        return content


class _StandardChunks:
    """Chunks read by llhttp. `pieces`: the contents of the chunks that were read."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._end = _End()
        self._end.on_body = self.pieces.append
        self._parser = httptools.HttpResponseParser(self._end)
        # old servers pad the sizes with spaces
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._parser.feed_data(_HEAD_OF_CHUNKS)
        self.feed = self._parser.feed_data
        """Reads bytes; raises HttpParserError for bytes that are invalid, or come after the end."""

    @property
    def is_complete(self) -> bool:
        return self._end.is_reached


class _End:
    """Notes the end of a body, and raises ValueError when another response begins."""

    on_body: Callable[[bytes], None]

    def __init__(self) -> None:
        self.is_reached = False

    def on_message_complete(self) -> None:
        self.is_reached = True

    def on_message_begin(self) -> None:
        if self.is_reached:
            raise ValueError


class _LineFeedChunks:
    """Chunks (RFC 9112, section 7.1) in which each line ends with LF or CRLF. `pieces`: as in _StandardChunks."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.is_complete = False
        self._data = bytearray()
        self._steps = self._read()
        next(self._steps)

    def feed(self, data: bytes) -> None:
        """Reads bytes; raises ValueError for an invalid line."""
        if not self.is_complete:
            self._data += data
            next(self._steps)

    def _read(self) -> Iterator[None]:
        """Reads the body; yields while it needs more bytes."""
        while size := _size((yield from self._line())):
            while size:
                while not self._data:
                    yield
                self.pieces.append(bytes(self._data[:size]))
                del self._data[:size]
                size -= len(self.pieces[-1])
            if (yield from self._line()):
                raise ValueError("a chunk is longer than its size")
        around = 0
        while line := (yield from self._line()):
            around += len(line)
            if around > _MOST_AROUND:
                raise ValueError("the trailers are too long")
        self.is_complete = True
        yield

    def _line(self) -> Generator[None, None, bytes]:
        while (end := self._data.find(b"\n")) < 0:
            if len(self._data) > _MOST_AROUND:
                raise ValueError("a line is too long")
            yield
        line = bytes(self._data[:end]).removesuffix(b"\r")
        del self._data[: end + 1]
        return line


def _has_plain_extensions(line: bytes) -> bool:
    """Returns whether the size line of a chunk has no extensions, or plain ones."""
    _, semicolon, extensions = line.strip(b"\r \t").partition(b";")
    return _EXTENSIONS.fullmatch(semicolon + extensions) is not None


def _size(line: bytes) -> int:
    size = _SIZE.fullmatch(line)
    if size is None:
        raise ValueError("not the size of a chunk")
    return int(size[1], 16)


def is_more(data: bytes) -> bool:
    """Returns whether bytes after a response are more than empty lines, which some servers send after a body."""
    return bool(data.strip(b"\r\n"))


Framing: TypeAlias = SizedBody | ChunkedBody


def is_tunnel(status: int) -> bool:
    """Returns whether a status means that the proxy has connected (RFC 9110, section 9.3.6)."""
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def framing_of(head: ResponseHead, method: str) -> Framing:
    """Returns how the body of a response to a request is framed."""
    if method == "HEAD" or (method == "CONNECT" and is_tunnel(head.status)):
        return SizedBody(0)
    return ChunkedBody() if head.chunked else SizedBody(head.length)
