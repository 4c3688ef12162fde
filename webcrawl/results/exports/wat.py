"""Exports the metadata and links of the records of WARC files in the form of Common Crawl's WAT files.

A WAT file has a record of type `metadata` for each record of a WARC file, with JSON as
https://github.com/iipc/webarchive-commons writes it. All numbers are strings there.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.config.program import VERSION
from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.mime.sniff import sniff
from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.stores.archive import Records
from webcrawl.stores.bodies import Bodies, about
from webcrawl.stores.group_commit import batched
from webcrawl.stores.warc.files import ROBOTSTXT, WARC, StoredFile, WarcLocation, crawl_of, prefix_of
from webcrawl.stores.warc.reading import StoredRecord, members, parse
from webcrawl.stores.warc.records import Record, record_id, warc_date, warcinfo_record

SUFFIX = ".warc.wat.gz"
ReadPages = Callable[[list[Document]], list[dict[str, Any] | None]]
"""Returns the HTML metadata of documents; None for one that cannot be read."""
_BATCH = 16
_LEVEL = 5
_CHUNK = 1 << 20
_SLOP = "4"
"""The bytes after the block of a record."""


class _Member(NamedTuple):
    """A record in its gzip member. `footer`: the last 8 bytes of the member, the CRC-32 and the inflated length."""

    file: str
    offset: int
    length: int
    footer: bytes
    head_length: int
    record: StoredRecord


def warc_files(archive: Records, crawl: str | None) -> list[StoredFile]:
    """Returns the finished WARC files of pages, of one crawl or of all; raises StoreError if there are none."""
    files = [
        file
        for file in archive.files()
        if file.name.endswith(WARC)
        and not file.name.endswith(ROBOTSTXT)
        and (crawl is None or crawl_of(file.name) == prefix_of(crawl))
    ]
    if not files:
        raise StoreError("no finished WARC file is stored" + (f" of crawl {crawl!r}" if crawl else ""))
    return sorted(files, key=lambda file: file.name)


def write_wat(
    files: Iterable[StoredFile], bodies: Bodies, read_pages: ReadPages, folder: Path, left_out: dict[str, str]
) -> dict[str, int]:
    """Writes a WAT file for each WARC file into a folder; returns their numbers of metadata records by name.

    `left_out` gets the WARC files that are damaged, by name, with what is left out of them.
    """
    counts: dict[str, int] = {}
    for file in files:
        name = file.name.removesuffix(WARC) + SUFFIX
        info = {"software": f"webcrawl/{VERSION}", "format": "WARC File Format 1.1"}
        warcinfo_id = record_id()
        counts[name] = 0
        with (folder / name).open("wb") as out:
            out.write(_packed(warcinfo_record(warcinfo_id, name, info)))
            for batch in batched(_members(file, left_out), _BATCH):
                pages = _pages(batch, bodies, read_pages)
                for number, member in enumerate(batch):
                    out.write(_packed(_wat_record(member, pages.get(number), warcinfo_id)))
                counts[name] += len(batch)
    return counts


class _Stream:
    """A stored file as `members` reads it."""

    def __init__(self, file: StoredFile) -> None:
        self._file = file
        self._offset = 0

    def read(self, size: int) -> bytes:
        chunk = self._file.read(self._offset, size) if self._offset < self._file.size else b""
        self._offset += len(chunk)
        return chunk


def _members(file: StoredFile, left_out: dict[str, str]) -> Iterator[_Member]:
    stream: Any = _Stream(file)
    end = 0
    for offset, length, start in members(stream):
        footer = file.read(offset + length - 8, 8)
        head = start.find(b"\r\n\r\n") + 4
        try:
            record = parse(start)
        except StoreError:
            break
        yield _Member(file.name, offset, length, footer, head, record)
        end = offset + length
    if end < file.size:
        left_out[file.name] = f"it is damaged or cut short: what follows byte {end:,} is left out"


def _pages(batch: list[_Member], bodies: Bodies, read_pages: ReadPages) -> dict[int, dict[str, Any]]:
    """Returns the HTML metadata of the responses in a batch, by their numbers."""
    documents = {
        number: document
        for number, member in enumerate(batch)
        if member.record.headers.get("WARC-Type") == "response"
        and (document := _document(member, bodies)) is not None
    }
    read = read_pages(list(documents.values()))
    return {number: page for number, page in zip(documents, read, strict=True) if page is not None}


def _document(member: _Member, bodies: Bodies) -> Document | None:
    """Returns the body of a response if it is HTML that can be read."""
    fields = about(member.record)
    declared = (fields["content_type"] or "").partition(";")[0].strip().lower()
    if declared and not (is_html(declared) or declared.startswith("text/")):
        return None
    try:
        _, body = bodies.read(WarcLocation(member.file, member.offset, member.length))
    except StoreUnavailable:
        raise
    except StoreError:
        return None
    media = sniff(fields["content_type"], body, fields["url"], nosniff=fields["nosniff"])
    return Document(body, media.mime_type, media.charset, fields["url"]) if is_html(media.mime_type) else None


def _wat_record(member: _Member, page: dict[str, Any] | None, warcinfo_id: str) -> Record:
    headers = member.record.headers
    block = json.dumps(
        {"Container": _container(member), "Envelope": _envelope(member, page)}, ensure_ascii=False
    ).encode("utf-8", "replace")
    fields = {
        "WARC-Type": "metadata",
        "WARC-Target-URI": headers.get("WARC-Target-URI", member.file),
        "WARC-Date": warc_date(datetime.now(UTC)),
        "WARC-Record-ID": record_id(),
        "WARC-Warcinfo-ID": warcinfo_id,
        "WARC-Refers-To": headers.get("WARC-Record-ID", ""),
        "Content-Type": "application/json",
    }
    return Record(fields, (block,))


def _container(member: _Member) -> dict[str, Any]:
    check, inflated = struct.unpack("<iI", member.footer)
    return {
        "Filename": member.file,
        "Compressed": True,
        "Offset": str(member.offset),
        "Gzip-Metadata": {
            "Deflate-Length": str(member.length),
            "Header-Length": "10",
            "Footer-Length": "8",
            "Inflated-CRC": str(check),
            "Inflated-Length": str(inflated),
        },
    }


def _envelope(member: _Member, page: dict[str, Any] | None) -> dict[str, Any]:
    headers = member.record.headers
    length = headers.get("Content-Length", "0")
    payload: dict[str, Any] = {
        "Actual-Content-Type": headers.get("Content-Type", ""),
        "Actual-Content-Length": length,
        "Trailing-Slop-Length": _SLOP,
    }
    if "WARC-Block-Digest" in headers:
        payload["Block-Digest"] = headers["WARC-Block-Digest"]
    payload |= _of_payload(member.record, int(length), page)
    return {
        "Format": "WARC",
        "WARC-Header-Length": str(member.head_length),
        "WARC-Header-Metadata": headers,
        "Payload-Metadata": payload,
    }


def _of_payload(record: StoredRecord, length: int, page: dict[str, Any] | None) -> dict[str, Any]:
    kind = record.headers.get("Content-Type", "").replace(" ", "")
    if record.http_head:
        start, lines = _http_fields(record.http_head)
        about_http = {
            "Headers": lines,
            "Headers-Length": str(len(record.http_head)),
            "Entity-Length": str(length - len(record.http_head)),
            "Entity-Trailing-Slop-Length": "0",
        }
        if digest := record.headers.get("WARC-Payload-Digest"):
            about_http["Entity-Digest"] = digest
        if kind.endswith("msgtype=request"):
            return {"HTTP-Request-Metadata": {"Request-Message": _request_line(start), **about_http}}
        html = {} if page is None else {"HTML-Metadata": page}
        return {"HTTP-Response-Metadata": {"Response-Message": _status_line(start), **about_http, **html}}
    if kind == "application/warc-fields":
        pairs = [(name, value) for name, value in _lines(record.payload.decode("utf-8", "replace"))]
        if record.headers.get("WARC-Type") == "warcinfo":
            return {"WARC-Info-Metadata": dict(pairs)}
        return {
            "WARC-Metadata-Metadata": {
                "Metadata-Records": [{"Name": name, "Value": value} for name, value in pairs]
            }
        }
    return {}


def _http_fields(head: bytes) -> tuple[str, dict[str, str | list[str]]]:
    """Returns the first line and the header lines; the values of a repeated name are a list."""
    start, _, rest = head.decode("latin-1").partition("\r\n")
    fields: dict[str, str | list[str]] = {}
    for name, value in _lines(rest):
        before = fields.get(name)
        if before is None:
            fields[name] = value
        else:
            fields[name] = [*(before if isinstance(before, list) else [before]), value]
    return start, fields


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\r\n"):
        name, colon, value = line.partition(":")
        if colon and name.strip():
            yield name.strip(), value.strip()


def _request_line(line: str) -> dict[str, str]:
    method, _, rest = line.partition(" ")
    path, _, version = rest.rpartition(" ")
    return {"Method": method, "Path": path, "Version": version}


def _status_line(line: str) -> dict[str, str]:
    version, _, rest = line.partition(" ")
    status, _, reason = rest.partition(" ")
    return {"Status": status, "Version": version, "Reason": reason}


def _packed(record: Record) -> bytes:
    return b"".join(record.member(_LEVEL))
