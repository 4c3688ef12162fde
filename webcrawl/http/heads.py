"""Heads of responses: which are read, and how; also those that are not as the standard says.

A status line is read if it names a status, as browsers read it. Chromium also reads lines without a status, as 200.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from webcrawl.errors import HeadTooLong, MalformedHead

Field: TypeAlias = tuple[bytes, bytes]

ODD_STATUS_LINE = "odd_status_line"
"""A remark: the status line is not as the standard says."""
REPEATED_LENGTH = "repeated_length"
"""A remark: Content-Length is repeated with the same value."""
ODD_LENGTH = "odd_length"
"""A remark: Content-Length is no number, so the end of the connection ends the body."""

MOST_INTERIM = 10
"""The most responses with a status of 1xx before the final response; Go's client accepts five."""
LONGEST_HEAD = 128 * 1024
"""The most bytes of the head of a response, with the responses with a status of 1xx before it."""
LONGEST_LINE = 64 * 1024
MOST_LINES = 1000
_MOST_BLANK = 256
"""The most bytes of empty lines before a status line."""

UP_TO_STATUS = rb"HTTP[^ \t\r\n]*[ \t]+"
"""A regular expression, of any case, for a status line before its status, also one that is not as the standard says."""
_SWITCHING = 101
_NO_BODY = (_SWITCHING, 204, 304)
_ALSO_CONTENT_CODINGS = (b"gzip", b"x-gzip", b"deflate")
"""Transfer codings that are content codings too (RFC 9112, section 7.2)."""
_STATUS_LINE = rb"HTTP/(1\.[01]) ([1-9]\d\d)(?: [^\r\n\0]*+)?+"
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_REGULAR_LINE = re.compile(_STATUS_LINE)
_REGULAR = re.compile(rb"%b\r\n((?:%b:[^\r\n\0]*+\r\n)*+)\r\n" % (_STATUS_LINE, _TOKEN))
_REGULAR_FIELD = re.compile(rb"([^:]++):[ \t]*+([^\r]*+)\r\n")
# up to four other bytes before the line, as in Chromium, or empty lines
_BLANK = re.compile(rb"[\r\n]*+")
_BEFORE = rb"(?:[\r\n]{0,%d}+|.{0,4}?)" % _MOST_BLANK
_LENIENT = re.compile(
    _BEFORE + rb"(" + UP_TO_STATUS + rb"([1-9]\d\d)(?!\d).*?)\n\r?\n", re.IGNORECASE | re.DOTALL
)
_START = re.compile(_BEFORE + rb"HTTP", re.IGNORECASE | re.DOTALL)
_START_BYTES = 8
_BLANK_LINE = re.compile(rb"\n\r?\n")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:(.*)", re.DOTALL)
_MOST_DIGITS = 18
_SPACED = bytes.maketrans(b"\0\r", b"  ")


class ResponseHead(NamedTuple):
    """The head of a response.

    version     such as "1.1"
    fields      names as sent, and values without spaces around them
    sent        the head for an archive: as sent, or repaired, with the status line and the lengths as they were sent
    length      the bytes of the body, None if they are not announced; 0 for a status without a body
    chunked     whether the body is in chunks
    keeps_open  whether the connection may be used again, if the body ends before the connection does
    remarks     how the head is not as the standard says
    """

    status: int
    version: str
    fields: Sequence[Field]
    sent: bytes
    length: int | None
    chunked: bool
    keeps_open: bool
    remarks: tuple[str, ...] = ()


class HeadReader:
    """Collects the bytes of the head of a final response. `interim`: responses with a status of 1xx before it."""

    def __init__(self) -> None:
        self.interim = 0
        self._data = bytearray()
        self._before = 0
        """Bytes of the interim responses."""

    def feed(self, data: bytes) -> tuple[ResponseHead, bytes] | None:
        """Returns the head and the bytes after it, or None if more is needed; raises MalformedHead."""
        searched = max(0, len(self._data) - 2)
        if self._data:  # mostly, the first bytes have the whole head
            self._data += data
            data = bytes(self._data) if b"\n" in data else b""
        start = 0
        while data and (end := _end_of_head(data, start, searched)):
            head = read_head(data[start:end])
            if not 100 <= head.status < 200 or head.status == _SWITCHING:
                return head, data[end:]
            start, searched = end, 0
            self.interim += 1
            if self.interim > MOST_INTERIM:
                raise MalformedHead(f"more than {MOST_INTERIM} responses with a status of 1xx")
        if data and (start or not self._data):
            self._data = bytearray(data[start:])
            self._before += start
        self._check()
        # now, because each further line would be searched with all before
        if data.count(b"\n", start) > MOST_LINES:
            self.check_lines()
            _check_size(bytes(self._data))
        return None

    def _check(self) -> None:
        """Raises MalformedHead if what has come cannot become a head."""
        if self._before + len(self._data) > LONGEST_HEAD:
            self.check_lines()
            _check_size(bytes(self._data))
            raise MalformedHead(f"a head of more than {LONGEST_HEAD} bytes")
        if len(self._data) >= _START_BYTES and not _START.match(self._data):
            line = bytes(self._data.lstrip(b"\r\n"))
            if len(self._data) - len(line) > _MOST_BLANK:
                raise MalformedHead(f"more than {_MOST_BLANK} bytes of empty lines before the status line")
            if len(line) >= _START_BYTES:
                raise _bad_line(line)

    def check_lines(self) -> None:
        """Raises MalformedHead if a complete line of an incomplete head is not valid."""
        _, *lines = bytes(self._data).split(b"\n")[:-1] or [b""]
        for line in lines:
            if line[:1] not in (b" ", b"\t") and not _FIELD.fullmatch(line.rstrip(b"\r")):
                raise MalformedHead(f"Invalid header line: {line.rstrip()[:50]!r}")


def _end_of_head(data: bytes, start: int, searched: int) -> int:
    """Returns where the head at `start` ends, 0 if it is not complete; no blank line begins before `searched`."""
    if data[start : start + 1] in (b"\r", b"\n") and (before := _BLANK.match(data, start)):
        start = before.end()
    blank = _BLANK_LINE.search(data, max(start, searched))
    return blank.end() if blank else 0


def read_head(data: bytes) -> ResponseHead:
    """Reads a complete head; raises MalformedHead.

    Lines without a valid name are left out, and NUL and CR in a value become spaces (RFC 9110, section 5.5). As in
    browsers, Transfer-Encoding overrides Content-Length if it names chunked, and is ignored otherwise. A coding that it
    names beside chunked, although nobody asked for it, is read as the last Content-Encoding. A length may be repeated
    (RFC 9110, section 8.6), and one that is no number counts as none. Other software may see such a response end
    elsewhere.
    """
    version, status, line, fields, remarks = _parsed(data)
    lengths: list[bytes] = []
    coding, options = b"", b""
    for name, value in fields:
        match name.lower():
            case b"content-length":
                lengths += value.split(b",")
            case b"transfer-encoding":
                coding += value.lower() + b","
            case b"connection":
                options += value.lower() + b","
    chunked, sent = coding == b"chunked,", data
    if coding and not chunked:
        names = [name.strip() for name in coding.split(b",")]
        chunked = b"chunked" in names
        if chunked and (inner := [name for name in names if name in _ALSO_CONTENT_CODINGS]):
            # the body is kept without its transfer coding, and would be decoded by nobody
            fields = [*fields, (b"Content-Encoding", b", ".join(inner))]
    keeps_open = b"close" not in options and (version == "1.1" or b"keep-alive" in options)
    if line or len(lengths) > 1 or (coding and (lengths or coding != b"chunked,")):
        keeps_open, ignored = False, b"content-length" if chunked else b"transfer-encoding"
        fields = [(name, value) for name, value in fields if name.lower() != ignored]
        sent = b"\r\n".join([line or data.partition(b"\r\n")[0], *map(b": ".join, fields), b"", b""])
        if not chunked and len(lengths) > 1:
            remarks = (*remarks, REPEATED_LENGTH)
            others = [(name, value) for name, value in fields if name.lower() != b"content-length"]
            fields = [*others, (b"Content-Length", lengths[0].strip())]
    length = None
    if lengths and not chunked:
        length = _length(lengths)
        if length is None:
            keeps_open, remarks = False, (*(name for name in remarks if name != REPEATED_LENGTH), ODD_LENGTH)
            fields = [(name, value) for name, value in fields if name.lower() != b"content-length"]
    if status in _NO_BODY:
        length, chunked, keeps_open = 0, False, keeps_open and status != _SWITCHING
    return ResponseHead(status, version, fields, sent, length, chunked, keeps_open, remarks)


def _parsed(data: bytes) -> tuple[str, int, bytes, list[Field], tuple[str, ...]]:
    """Returns version, status, the status line unless the head is as the standard says, fields, and remarks."""
    if len(data) > LONGEST_LINE or data.count(b"\n") > MOST_LINES:
        _check_size(data)
    if regular := _REGULAR.fullmatch(data):
        fields = _REGULAR_FIELD.findall(regular[3])
        if b" \r\n" in data or b"\t\r\n" in data:
            fields = [(name, value.rstrip(b" \t")) for name, value in fields]
        return regular[1].decode(), int(regular[2]), b"", fields, ()
    head = _LENIENT.match(data)
    if head is None:
        raise _bad_line(data)
    line, *lines = (line.rstrip(b"\r").translate(_SPACED) for line in head[1].rstrip().split(b"\n"))
    standard = None if head.start(1) else _REGULAR_LINE.fullmatch(line)
    version, remarks = (standard[1].decode(), ()) if standard else ("1.1", (ODD_STATUS_LINE,))
    return version, int(head[2]), line, list(_fields(lines)), remarks


def is_regular(line: bytes) -> bool:
    """Returns whether a status line is as the standard says; a reason, and the space before it, may be missing."""
    return _REGULAR_LINE.fullmatch(line.rstrip(b"\r\n")) is not None


def remarks_of(fields: Iterable[Field], *, is_odd: bool) -> tuple[str, ...]:
    """Returns the remarks on a head that another parser has read; `is_odd`: its status line is not regular."""
    lengths = [value for name, value in fields if name.lower() == b"content-length"]
    remarks = {ODD_STATUS_LINE: is_odd, REPEATED_LENGTH: b"," in b",".join(lengths)}
    return tuple(remark for remark, applies in remarks.items() if applies)


def _length(values: Iterable[bytes]) -> int | None:
    """Returns the value of Content-Length, which may be repeated, or None if it is no number; raises MalformedHead."""
    lengths = [value.strip() for value in values]
    line = b"Content-Length: " + b", ".join(lengths)
    if not all(length.isdigit() and len(length) <= _MOST_DIGITS for length in lengths):
        if len(set(lengths)) == 1:
            return None
        raise MalformedHead(f"Invalid character in Content-Length: {line[:50]!r}")
    if len({length.lstrip(b"0") for length in lengths}) > 1:
        raise MalformedHead(f"Different values of Content-Length: {line[:50]!r}")
    return int(lengths[0])


def _fields(lines: Iterable[bytes]) -> Iterator[Field]:
    """Yields names and values of valid lines; a line that begins with white space continues the line before."""
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


def _check_size(data: bytes) -> None:
    lines = data.split(b"\n")
    if max(map(len, lines)) > LONGEST_LINE:
        raise HeadTooLong("a line of the head is longer than 64 KiB")
    if len(lines) > MOST_LINES:
        raise HeadTooLong(f"a head of more than {MOST_LINES} lines")


def _bad_line(data: bytes) -> MalformedHead:
    line = data.partition(b"\n")[0].rstrip()
    return MalformedHead(f"Bad status line: {line[:50]!r}")
