"""Makes WARC/1.1 records of an exchange.

The standard: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/

The payload is stored without its transfer-encoding, so the header block must not claim one: `Transfer-Encoding` is
renamed to `X-Archive-Orig-Transfer-Encoding`, as other crawlers do. A `Content-Length` beside it, which clients
ignore, is renamed too. The true `Content-Length` comes first. All other header lines stay as received.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from zlib_ng import zlib_ng

from webcrawl.documents.body import Body
from webcrawl.documents.exchange import Exchange, digest

VERSION = b"WARC/1.1\r\n"
REVISIT_PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
UNMODIFIED_PROFILE = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
STATUS = "X-Status"
"""The field of a resource record with the status, for example of an error page that a browser rendered."""

_GZIP = zlib.MAX_WBITS | 16
_DEFLATE = -zlib.MAX_WBITS
# deflate, no flags, no time, no file name, unknown system (RFC 1952)
_GZIP_HEAD = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
_END = b"\r\n\r\n"
_AT_ONCE = 1 << 20
_LARGE = 1 << 18
_WORTH = 0.95
# gzip, JPEG, PNG
_COMPRESSED = (b"\x1f\x8b", b"\xff\xd8\xff", b"\x89PNG")
_FRAMING = re.compile(rb"^(Transfer-Encoding|Content-Length)(?=[ \t]*:)", re.IGNORECASE | re.MULTILINE)
_TRANSFER_ENCODING = re.compile(rb"^Transfer-Encoding[ \t]*:", re.IGNORECASE | re.MULTILINE)
_EMPTY = digest(b"")
_LINE_BREAKS = re.compile(r"[\r\n]+")


class Record(NamedTuple):
    """A record to write: named fields, and the parts of its block."""

    fields: dict[str, str]
    block: tuple[bytes | Body, ...]

    def member(self, level: int, *, is_compressed: bool = False) -> Iterator[bytes]:
        """Yields the record as a gzip member, compressed at `level` (0 to 9), in chunks.

        `is_compressed`: the payload is compressed already and stays as it is; see `is_compressed`.
        """
        size = sum(map(len, self.block))
        head = VERSION + _warc_fields({**self.fields, "Content-Length": str(size)}) + b"\r\n"
        # zlib_ng writes the same format and size as zlib in half the time
        if size <= _AT_ONCE:  # releases the interpreter lock once instead of for each chunk
            *first, last = self.block
            if is_compressed and isinstance(last, Body):
                yield _with_stored(b"".join((head, *map(bytes, first))), bytes(last) + _END, level)
            else:
                yield zlib_ng.compress(b"".join((head, *map(bytes, self.block), _END)), level, _GZIP)
            return
        stream = zlib_ng.compressobj(0 if is_compressed else level, zlib_ng.DEFLATED, _GZIP)
        yield stream.compress(head)
        for part in self.block:
            for chunk in part.chunks() if isinstance(part, Body) else (part,):
                yield stream.compress(chunk)
        yield stream.compress(_END)
        yield stream.flush()


def _with_stored(head: bytes, rest: bytes, level: int) -> bytes:
    """Returns a gzip member of `head`, compressed, and `rest`, stored: a tenth of the time, and smaller if compressed.

    A flush ends the compressed blocks at a whole byte, so that the stored blocks can follow them.
    """
    stream = zlib_ng.compressobj(level, zlib_ng.DEFLATED, _DEFLATE)
    blocks = stream.compress(head) + stream.flush(zlib_ng.Z_SYNC_FLUSH)
    length = len(head) + len(rest) & 0xFFFFFFFF
    check = zlib_ng.crc32(rest, zlib_ng.crc32(head))
    return b"".join(
        (_GZIP_HEAD, blocks, zlib_ng.compress(rest, 0, _DEFLATE), struct.pack("<II", check, length))
    )


def is_compressed(payload: Body) -> bool:
    """Returns whether a payload is compressed, by its first bytes, or by compressing the start of a large payload.

    Compressing it again would take as long as for plain text, and other pages wait while a video is written.
    """
    if len(payload) < _LARGE:
        return payload.start(4).startswith(_COMPRESSED)
    sample = payload.start(_LARGE)
    return len(zlib_ng.compress(sample, 1)) >= _WORTH * len(sample)


def record_id() -> str:
    """Returns a new record ID: a random UUID (RFC 9562, version 4). Takes a quarter of the time of `uuid.uuid4`."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"<urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}>"


def warcinfo_record(identity: str, filename: str, info: Mapping[str, str]) -> Record:
    """Returns the first record of a file: its software, operator and format, as lines of `info`."""
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
    """Returns the response: header block and payload."""
    head = archived_head(exchange)
    fields = _fields(exchange, "response", warcinfo_id)
    fields["WARC-Payload-Digest"] = exchange.payload.digest
    fields["WARC-Block-Digest"] = digest(head, exchange.payload)
    fields["Content-Type"] = "application/http; msgtype=response"
    return Record(fields, (head, exchange.payload))


def revisit_record(
    exchange: Exchange, warcinfo_id: str, refers_to_url: str, refers_to_date: datetime
) -> Record:
    """Returns a response whose payload is already archived: header block only, with a reference to the payload.

    Without HTTP the block is empty and has no type.
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
    """Returns a document fetched without HTTP: the payload, and X-Status for a status other than 200."""
    fields = _fields(exchange, "resource", warcinfo_id)
    if exchange.status != 200:
        fields[STATUS] = str(exchange.status)
    fields["WARC-Payload-Digest"] = fields["WARC-Block-Digest"] = exchange.payload.digest
    fields["Content-Type"] = exchange.mime_type or "application/octet-stream"
    return Record(fields, (exchange.payload,))


def unmodified_record(
    exchange: Exchange, warcinfo_id: str, refers_to_url: str, refers_to_date: datetime, payload: str
) -> Record:
    """Returns a 304: the header block, with URL and date of the archived response that has the payload."""
    record = revisit_record(exchange, warcinfo_id, refers_to_url, refers_to_date)
    changes = {"WARC-Profile": UNMODIFIED_PROFILE, "WARC-Payload-Digest": payload}
    return record._replace(fields=record.fields | changes)


def request_record(exchange: Exchange, warcinfo_id: str, concurrent_to: str) -> Record:
    """Returns the request that led to the record `concurrent_to`."""
    head = _ended(exchange.request_head)
    fields = _fields(exchange, "request", warcinfo_id)
    fields.pop("WARC-Truncated", None)
    fields["WARC-Concurrent-To"] = concurrent_to
    fields["WARC-Payload-Digest"] = digest(exchange.request_body) if exchange.request_body else _EMPTY
    fields["WARC-Block-Digest"] = digest(head, exchange.request_body)
    fields["Content-Type"] = "application/http; msgtype=request"
    return Record(fields, (head, exchange.request_body))


def conversion_record(
    exchange: Exchange, warcinfo_id: str, refers_to: str, mime_type: str, text: bytes, language: str | None
) -> Record:
    """Returns a text made from the response in the record `refers_to`, as in the WET files of Common Crawl.

    It also has the type of its payload, because readers such as that of datatrove guess it otherwise, and leave out
    plain text that looks like source code.
    """
    fields = {
        "WARC-Type": "conversion",
        "WARC-Record-ID": record_id(),
        "WARC-Warcinfo-ID": warcinfo_id,
        "WARC-Target-URI": exchange.url,
        "WARC-Date": warc_date(exchange.fetched_at),
        "WARC-Refers-To": refers_to,
        "WARC-Block-Digest": digest(text),
        "WARC-Identified-Payload-Type": mime_type,
        "Content-Type": mime_type,
    }
    if language:
        fields["WARC-Identified-Content-Language"] = language
    return Record(fields, (text,))


def metadata_record(
    exchange: Exchange, warcinfo_id: str, concurrent_to: str, facts: Mapping[str, str]
) -> Record:
    """Facts about the fetch that led to the record `concurrent_to`."""
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
    """Returns the header block of the response, corrected for a payload without transfer-encoding; see the module."""
    head = _ended(exchange.response_head)
    if not _TRANSFER_ENCODING.search(head):
        return head
    status_line, _, lines = head.partition(b"\n")
    length = b"Content-Length: %d\r\n" % len(exchange.payload)
    return status_line + b"\n" + length + _FRAMING.sub(rb"X-Archive-Orig-\1", lines)


# all records of a fetch have the same date
@lru_cache(maxsize=16)
def warc_date(moment: datetime) -> str:
    """Returns a WARC-Date with microseconds; a time without time zone is UTC."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


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
    if exchange.protocol:
        fields["WARC-Protocol"] = exchange.protocol
    return fields


def _warc_fields(lines: Mapping[str, str]) -> bytes:
    """Returns a block of type application/warc-fields."""
    text = "".join([f"{name}: {value}\r\n" for name, value in lines.items()])
    if not text.count("\r") == text.count("\n") == len(lines):
        text = "".join([f"{name}: {_LINE_BREAKS.sub(' ', value)}\r\n" for name, value in lines.items()])
    return text.encode("utf-8", "replace")


def _ended(head: bytes) -> bytes:
    """Returns a header block with its final blank line, which the client may have removed."""
    return head if head.endswith(b"\r\n\r\n") else head.rstrip(b"\r\n") + b"\r\n\r\n"
