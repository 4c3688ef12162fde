"""Reads WARC records back: from whole gzip members, or in chunks.

The standard: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, BinaryIO

from zlib_ng import zlib_ng

from webcrawl.documents.content_coding import inflate
from webcrawl.errors import StoreError

_GZIP = zlib.MAX_WBITS | 16
START_BYTES = _CHUNK = 1 << 16
"""The most bytes of a member's contents that `members` yields."""
_LONGEST_HEAD = 1 << 23
_BROKEN: Any = zlib_ng.error


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as read: WARC fields, HTTP header block, and payload, still in its content coding.

    In records that are not HTTP, `http_head` is empty and the whole block is the payload.
    """

    headers: dict[str, str]
    http_head: bytes
    payload: bytes


def has_body(record: StoredRecord) -> bool:
    """Returns whether the record contains the payload. A revisit has only the header block."""
    return record.headers.get("WARC-Type") in ("response", "resource")


def inflated(member: bytes) -> bytes:
    """Returns the contents of one gzip member; raises zlib.error unless it is complete."""
    stream = zlib.decompressobj(_GZIP)
    data = stream.decompress(member)
    if not stream.eof:
        raise zlib.error("the gzip member is cut short")
    return data


def members(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """(offset, length, first START_BYTES of the contents) of each gzip member, up to the first incomplete one."""
    offset, pending = 0, b""
    while True:
        stream = zlib.decompressobj(_GZIP)
        start = bytearray()
        length = 0
        while not stream.eof:
            chunk = stream.unconsumed_tail or pending or file.read(_CHUNK)
            if not chunk:
                return
            pending = b""
            try:
                contents = stream.decompress(chunk, _CHUNK)
            except zlib.error:
                return
            # at the end of a member, zlib has the rest in both attributes
            length += len(chunk) - len(stream.unused_data if stream.eof else stream.unconsumed_tail)
            start += contents[: _CHUNK - len(start)]
        yield offset, length, bytes(start)
        offset += length
        pending = stream.unused_data


def parse(data: bytes) -> StoredRecord:
    """Parses an inflated record, even one that is cut short; raises StoreError if it is not a WARC record."""
    head, _, rest = data.partition(b"\r\n\r\n")
    version, *lines = head.decode("utf-8", "replace").split("\r\n")
    if not version.startswith("WARC/"):
        raise StoreError("this is not a WARC record")
    headers = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = headers.get("Content-Length", "")
    block = rest[: int(length)] if length.isdecimal() else rest
    if not headers.get("Content-Type", "").startswith("application/http"):
        return StoredRecord(headers, b"", block)
    http_head, blank, payload = block.partition(b"\r\n\r\n")
    return StoredRecord(headers, http_head + blank, payload)


def begun(member: Iterable[bytes]) -> tuple[StoredRecord, Iterator[bytes]]:
    """Returns a record without its payload, and the payload in chunks. Both raise StoreError."""
    contents = _unzipped(member)
    head, rest = _head(b"", contents)
    headers, http_head = parse(head).headers, b""
    if headers.get("Content-Type", "").startswith("application/http"):
        http_head, rest = _head(rest, contents)
    length = headers.get("Content-Length", "")
    left = int(length) - len(http_head) if length.isdecimal() else sys.maxsize
    return StoredRecord(headers, http_head, b""), _first(left, chain((rest,), contents))


def http_field(head: bytes, name: str) -> str | None:
    """Returns the value of the first header line of that name (in lower case), or None."""
    return next(http_fields(head, name), None)


def http_fields(head: bytes, name: str) -> Iterator[str]:
    """Yields the values of all header lines of that name (in lower case)."""
    for line in head.split(b"\n")[1:]:
        field, colon, value = line.partition(b":")
        if colon and field.strip().lower() == name.encode("ascii"):
            yield value.strip().decode("latin-1")


def _unzipped(member: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the contents of one gzip member in chunks; raises StoreError when it is incomplete."""
    stream = zlib_ng.decompressobj(_GZIP)
    try:
        yield from inflate(stream, member)
    except _BROKEN as error:
        raise StoreError(f"this is not a WARC record: {error}") from error
    if not stream.eof:
        raise StoreError("the gzip member is cut short")


def _head(start: bytes, contents: Iterator[bytes]) -> tuple[bytes, bytes]:
    """Returns the lines up to a blank line, and the bytes after it that were read."""
    while b"\r\n\r\n" not in start and (piece := next(contents, b"")):
        start += piece
        if len(start) > _LONGEST_HEAD:
            raise StoreError("this is not a WARC record: its header does not end")
    head, blank, rest = start.partition(b"\r\n\r\n")
    return head + blank, rest


def _first(size: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the first `size` bytes. Reads the rest as well, to detect damage."""
    for piece in pieces:
        if kept := piece[: max(size, 0)]:
            yield kept
        size -= len(piece)
