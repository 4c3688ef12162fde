"""WARC/1.1 records as bytes: making them of an exchange, and taking them apart again.

The standard: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/

A payload here has no transfer-encoding any more, so a response's header block cannot claim one:
`Transfer-Encoding` is renamed to `X-Archive-Orig-Transfer-Encoding`, as other crawlers do, a `Content-Length`
beside it (which a client had to ignore) likewise, and a `Content-Length` that holds is put first. Every other
header line stays as received.
"""

from __future__ import annotations

import re
import sys
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

from zlib_ng import zlib_ng

from webcrawl.documents.body import Body
from webcrawl.documents.content_coding import inflate
from webcrawl.documents.exchange import Exchange, digest
from webcrawl.errors import StoreError

VERSION = b"WARC/1.1\r\n"
REVISIT_PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
UNMODIFIED_PROFILE = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
STATUS = "X-Status"
"""The field of a resource that is, say, the page of an error as a browser had it."""

_GZIP = zlib.MAX_WBITS | 16
_END = b"\r\n\r\n"
_AT_ONCE = 1 << 20
_CHUNK = 1 << 16
_LARGE = 1 << 18
_WORTH = 0.95
_LONGEST_HEAD = 1 << 23
_FRAMING = re.compile(rb"^(Transfer-Encoding|Content-Length)(?=[ \t]*:)", re.IGNORECASE | re.MULTILINE)
_TRANSFER_ENCODING = re.compile(rb"^Transfer-Encoding[ \t]*:", re.IGNORECASE | re.MULTILINE)
_BROKEN: Any = zlib_ng.error
_LINE_BREAKS = re.compile(r"[\r\n]+")


class Record(NamedTuple):
    """A record to be written: named fields, and the parts of its block."""

    fields: dict[str, str]
    block: tuple[bytes | Body, ...]

    def member(self, level: int) -> Iterator[bytes]:
        """The record as a gzip member of its own, compressed at `level` (0 to 9), piece by piece."""
        size = sum(map(len, self.block))
        head = VERSION + _warc_fields({**self.fields, "Content-Length": str(size)}) + b"\r\n"
        # the same format and size as zlib's, in half the time
        if size <= _AT_ONCE:  # lets go of Python's lock once, not at each piece, when others wait to take it
            yield zlib_ng.compress(b"".join((head, *map(bytes, self.block), _END)), level, _GZIP)
            return
        stream = zlib_ng.compressobj(level, zlib_ng.DEFLATED, _GZIP)
        yield stream.compress(head)
        for part in self.block:
            for chunk in part.chunks() if isinstance(part, Body) else (part,):
                yield stream.compress(chunk)
        yield stream.compress(_END)
        yield stream.flush()


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as read: WARC fields, and for HTTP the header block and the payload, in whatever content coding.

    In records that are not HTTP, `http_head` is empty and the whole block is the payload.
    """

    headers: dict[str, str]
    http_head: bytes
    payload: bytes


def has_body(record: StoredRecord) -> bool:
    """Whether the payload is in the record: of a revisit there is only the head."""
    return record.headers.get("WARC-Type") in ("response", "resource")


def level_for(payload: Body, level: int) -> int:
    """`level`, or 0 for what is large and compressed already: all other pages wait while a video is written."""
    if len(payload) < _LARGE:
        return level
    sample = payload.start(_LARGE)
    return level if len(zlib_ng.compress(sample, 1)) < _WORTH * len(sample) else 0


def record_id() -> str:
    """A new name for a record."""
    return f"<urn:uuid:{uuid.uuid4()}>"


def warcinfo_record(identity: str, filename: str, info: Mapping[str, str]) -> Record:
    """What opens a file: who wrote it, with what and how, as lines of `info`."""
    block = _warc_fields(info)
    fields = {
        "WARC-Type": "warcinfo",
        "WARC-Record-ID": identity,
        "WARC-Date": warc_date(datetime.now(UTC)),
        "WARC-Filename": filename,
        "WARC-Block-Digest": digest(block),
        "Content-Type": "application/warc-fields",
    }
    return Record(fields, (block,))


def response_record(exchange: Exchange, warcinfo_id: str) -> Record:
    """The answer: header block and payload."""
    head = archived_head(exchange)
    fields = _fields(exchange, "response", warcinfo_id)
    fields["WARC-Payload-Digest"] = exchange.payload.digest
    fields["WARC-Block-Digest"] = digest(head, exchange.payload)
    fields["Content-Type"] = "application/http; msgtype=response"
    return Record(fields, (head, exchange.payload))


def revisit_record(
    exchange: Exchange, warcinfo_id: str, refers_to_url: str, refers_to_date: datetime
) -> Record:
    """An answer whose payload is archived already: header block only, and where to find the payload.

    Of what came without HTTP the block is empty, and of no type.
    """
    head = archived_head(exchange) if exchange.response_head else b""
    fields = _fields(exchange, "revisit", warcinfo_id)
    fields["WARC-Profile"] = REVISIT_PROFILE
    fields["WARC-Refers-To-Target-URI"] = refers_to_url
    fields["WARC-Refers-To-Date"] = warc_date(refers_to_date)
    fields["WARC-Payload-Digest"] = exchange.payload.digest
    fields["WARC-Block-Digest"] = digest(head)
    if head:
        fields["Content-Type"] = "application/http; msgtype=response"
    return Record(fields, (head,))


def resource_record(exchange: Exchange, warcinfo_id: str) -> Record:
    """What came without HTTP: the payload alone, and a field of ours for a status that is not 200."""
    fields = _fields(exchange, "resource", warcinfo_id)
    if exchange.status != 200:
        fields[STATUS] = str(exchange.status)
    fields["WARC-Payload-Digest"] = fields["WARC-Block-Digest"] = exchange.payload.digest
    fields["Content-Type"] = exchange.mime_type or "application/octet-stream"
    return Record(fields, (exchange.payload,))


def unmodified_record(
    exchange: Exchange, warcinfo_id: str, refers_to_url: str, refers_to_date: datetime, payload: str
) -> Record:
    """An answer 304: header block only, and under which URL and when the payload of this digest was archived."""
    record = revisit_record(exchange, warcinfo_id, refers_to_url, refers_to_date)
    changes = {"WARC-Profile": UNMODIFIED_PROFILE, "WARC-Payload-Digest": payload}
    return record._replace(fields=record.fields | changes)


def request_record(exchange: Exchange, warcinfo_id: str, concurrent_to: str) -> Record:
    """The question that led to the record `concurrent_to`."""
    head = _ended(exchange.request_head)
    fields = _fields(exchange, "request", warcinfo_id)
    fields.pop("WARC-Truncated", None)
    fields["WARC-Concurrent-To"] = concurrent_to
    fields["WARC-Payload-Digest"] = digest(exchange.request_body)
    fields["WARC-Block-Digest"] = digest(head, exchange.request_body)
    fields["Content-Type"] = "application/http; msgtype=request"
    return Record(fields, (head, exchange.request_body))


def metadata_record(
    exchange: Exchange, warcinfo_id: str, concurrent_to: str, facts: Mapping[str, str]
) -> Record:
    """What the crawler knows of the fetch that led to the record `concurrent_to`, as lines of `facts`."""
    block = _warc_fields(facts)
    fields = {
        "WARC-Type": "metadata",
        "WARC-Record-ID": record_id(),
        "WARC-Warcinfo-ID": warcinfo_id,
        "WARC-Target-URI": exchange.url,
        "WARC-Date": warc_date(exchange.fetched_at),
        "WARC-Concurrent-To": concurrent_to,
        "WARC-Block-Digest": digest(block),
        "Content-Type": "application/warc-fields",
    }
    return Record(fields, (block,))


def archived_head(exchange: Exchange) -> bytes:
    """The response's header block, true for a payload without transfer-encoding (see the module)."""
    head = _ended(exchange.response_head)
    if not _TRANSFER_ENCODING.search(head):
        return head
    status_line, _, lines = head.partition(b"\n")
    length = b"Content-Length: %d\r\n" % len(exchange.payload)
    return status_line + b"\n" + length + _FRAMING.sub(rb"X-Archive-Orig-\1", lines)


def inflated(member: bytes) -> bytes:
    """The contents of one gzip member; zlib.error unless it is whole."""
    stream = zlib.decompressobj(_GZIP)
    data = stream.decompress(member)
    if not stream.eof:
        raise zlib.error("the gzip member is cut short")
    return data


def members(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """(offset, length, first 64 KiB of the contents) of each gzip member, up to the first torn one."""
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
            # At the end zlib has the rest in both places.
            length += len(chunk) - len(stream.unused_data if stream.eof else stream.unconsumed_tail)
            start += contents[: _CHUNK - len(start)]
        yield offset, length, bytes(start)
        offset += length
        pending = stream.unused_data


def parse(data: bytes) -> StoredRecord:
    """Take apart an inflated record; a record cut short gives what there is. StoreError if it is none."""
    head, _, rest = data.partition(b"\r\n\r\n")
    version, *lines = head.decode("utf-8", "replace").split("\r\n")
    if not version.startswith("WARC/"):
        raise StoreError("no WARC record here")
    headers = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = headers.get("Content-Length", "")
    block = rest[: int(length)] if length.isdecimal() else rest
    if not headers.get("Content-Type", "").startswith("application/http"):
        return StoredRecord(headers, b"", block)
    http_head, blank, payload = block.partition(b"\r\n\r\n")
    return StoredRecord(headers, http_head + blank, payload)


def begun(member: Iterable[bytes]) -> tuple[StoredRecord, Iterator[bytes]]:
    """A record without its payload, and that piece by piece, as its gzip member is read; both raise StoreError."""
    contents = _unzipped(member)
    head, rest = _head(b"", contents)
    headers, http_head = parse(head).headers, b""
    if headers.get("Content-Type", "").startswith("application/http"):
        http_head, rest = _head(rest, contents)
    length = headers.get("Content-Length", "")
    left = int(length) - len(http_head) if length.isdecimal() else sys.maxsize
    return StoredRecord(headers, http_head, b""), _first(left, chain((rest,), contents))


def http_field(head: bytes, name: str) -> str | None:
    """The value of the first header line of that name (in lower case), or None."""
    return next(http_fields(head, name), None)


def http_fields(head: bytes, name: str) -> Iterator[str]:
    """The values of all header lines of that name (in lower case)."""
    for line in head.split(b"\n")[1:]:
        field, colon, value = line.partition(b":")
        if colon and field.strip().lower() == name.encode("ascii"):
            yield value.strip().decode("latin-1")


def warc_date(moment: datetime) -> str:
    """A WARC-Date with microseconds; a time without zone is taken for UTC."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _unzipped(member: Iterable[bytes]) -> Iterator[bytes]:
    """The contents of one gzip member piece by piece; StoreError when it ends and is not whole."""
    stream = zlib_ng.decompressobj(_GZIP)
    try:
        yield from inflate(stream, member)
    except _BROKEN as error:
        raise StoreError(f"no record here: {error}") from error
    if not stream.eof:
        raise StoreError("the gzip member is cut short")


def _head(start: bytes, contents: Iterator[bytes]) -> tuple[bytes, bytes]:
    """Lines up to a blank one, and the start of what follows."""
    while b"\r\n\r\n" not in start and (piece := next(contents, b"")):
        start += piece
        if len(start) > _LONGEST_HEAD:
            raise StoreError("no WARC record here: its head has no end")
    head, blank, rest = start.partition(b"\r\n\r\n")
    return head + blank, rest


def _first(size: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The first `size` bytes; all are read, so that what is damaged is found."""
    for piece in pieces:
        if found := piece[: max(size, 0)]:
            yield found
        size -= len(piece)


def _fields(exchange: Exchange, warc_type: str, warcinfo_id: str) -> dict[str, str]:
    fields = {
        "WARC-Type": warc_type,
        "WARC-Record-ID": record_id(),
        "WARC-Warcinfo-ID": warcinfo_id,
        "WARC-Target-URI": exchange.url,
        "WARC-Date": warc_date(exchange.fetched_at),
    }
    if exchange.ip_address:
        fields["WARC-IP-Address"] = exchange.ip_address
    if exchange.truncated:
        fields["WARC-Truncated"] = exchange.truncated
    return fields


def _warc_fields(lines: Mapping[str, str]) -> bytes:
    """A block of type application/warc-fields."""
    text = "".join([f"{name}: {value}\r\n" for name, value in lines.items()])
    if not text.count("\r") == text.count("\n") == len(lines):
        text = "".join([f"{name}: {_LINE_BREAKS.sub(' ', value)}\r\n" for name, value in lines.items()])
    return text.encode("utf-8", "replace")


def _ended(head: bytes) -> bytes:
    """A header block that ends with its blank line, whatever the client left of it."""
    return head if head.endswith(b"\r\n\r\n") else head.rstrip(b"\r\n") + b"\r\n\r\n"
