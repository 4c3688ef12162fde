"""Heads of responses that are not as the standard says: which of them are read, and how.

A status line is read if it names a status, as browsers read it. Chromium also reads lines without a status, as 200.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from webcrawl.crawler.responses import ODD_STATUS_LINE, REPEATED_LENGTH
from webcrawl.documents.exchange import UP_TO_STATUS

Field: TypeAlias = tuple[bytes, bytes]

MOST_INTERIM = 10
"""The most responses with a status of 1xx before the final response; Go's client accepts five."""

_REGULAR = re.compile(rb"HTTP/1\.[01] [1-9]\d\d(?![^ \r\n])")
# up to four other bytes before the line, as in Chromium, or empty lines, as in aiohttp
_BEFORE = rb"(?:[\r\n]*|.{0,4}?)"
_HEAD = re.compile(
    _BEFORE + rb"(" + UP_TO_STATUS + rb"([2-9]\d\d)(?!\d).*?)\n\r?\n", re.IGNORECASE | re.DOTALL
)
_INTERIM = re.compile(_BEFORE + UP_TO_STATUS + rb"1\d\d(?!\d).*?\n\r?\n", re.IGNORECASE | re.DOTALL)
_START = re.compile(_BEFORE + rb"HTTP", re.IGNORECASE | re.DOTALL)
_START_BYTES = 8
_BLANK_LINE = re.compile(rb"\n\r?\n")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:(.*)", re.DOTALL)
_SPACED = bytes.maketrans(b"\0\r", b"  ")
_NO_BODY = (b"204", b"304")


class OddHead(NamedTuple):
    """A repaired head.

    parsed    the head in the form of the standard
    sent      the head for the archive: the status line and the lengths as they were sent
    body      the bytes after the head
    remarks   flags for the response
    """

    parsed: bytes
    sent: bytes
    body: bytes
    remarks: tuple[str, ...]


def is_regular(data: bytes | bytearray) -> bool:
    """Returns whether a status line is as the standard says; a reason, and the space before it, may be missing."""
    return _REGULAR.match(data) is not None


def may_become_head(data: bytes | bytearray) -> bool:
    """Returns whether more bytes may make `data` the head of a response that `mend` repairs."""
    rest, interim = _after_interim(data)
    start = _START.match(rest)
    is_incomplete = _BLANK_LINE.search(rest, start.end()) is None if start else len(rest) < _START_BYTES
    return is_incomplete and interim <= MOST_INTERIM


def mend(data: bytes) -> OddHead | None:
    """Returns the repaired head of the final response; None if it is not complete, or cannot be repaired.

    Lines without a valid name are left out, and NUL and CR in a value become spaces (RFC 9110, section 5.5). As in
    browsers, Transfer-Encoding overrides Content-Length if it is chunked, and is ignored otherwise. A length may be
    repeated (RFC 9110, section 8.6).
    """
    head = _HEAD.match(_after_interim(data)[0])
    if head is None:
        return None
    line, *lines = (line.rstrip(b"\r").translate(_SPACED) for line in head[1].rstrip().split(b"\n"))
    fields = list(_fields(lines))
    chunked = any(
        name.lower() == b"transfer-encoding" and b"chunked" in value.lower() for name, value in fields
    )
    ignored = b"content-length" if chunked else b"transfer-encoding"
    fields = [(name, value) for name, value in fields if name.lower() != ignored]
    is_odd = head.start(1) > 0 or not is_regular(line)
    return OddHead(
        _joined(b"HTTP/1.1 " + head[2] if is_odd else line, _with_one_length(fields)),
        _joined(line, fields),
        b"" if head[2] in _NO_BODY else head.string[head.end() :],
        remarks_of(fields, is_odd=is_odd),
    )


def remarks_of(fields: Iterable[Field], *, is_odd: bool) -> tuple[str, ...]:
    """Returns the flags for a head that was read; `is_odd`: its status line is not as the standard says."""
    remarks = {ODD_STATUS_LINE: is_odd, REPEATED_LENGTH: len(_lengths(fields)) > 1}
    return tuple(remark for remark, applies in remarks.items() if applies)


def _after_interim(data: bytes | bytearray) -> tuple[bytes, int]:
    """Returns the data after the responses with a status of 1xx, and their number."""
    end = number = 0
    while interim := _INTERIM.match(data, end):
        end, number = interim.end(), number + 1
    return bytes(data[end:]), number


def _lengths(fields: Iterable[Field]) -> list[bytes]:
    """Returns all values of Content-Length, also those in a list."""
    return [
        length.strip()
        for name, value in fields
        if name.lower() == b"content-length"
        for length in value.split(b",")
    ]


def _with_one_length(fields: Sequence[Field]) -> Sequence[Field]:
    """Returns the fields with the first of equal values of Content-Length; all of them if they differ."""
    values = _lengths(fields)
    if len(values) < 2 or len({value.lstrip(b"0") for value in values}) > 1 or not values[0].isdigit():
        return fields
    others = [(name, value) for name, value in fields if name.lower() != b"content-length"]
    return [*others, (b"Content-Length", values[0])]


def _joined(line: bytes, fields: Iterable[Field]) -> bytes:
    return b"\r\n".join([line, *(name + b": " + value for name, value in fields), b"", b""])


def _fields(lines: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
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
