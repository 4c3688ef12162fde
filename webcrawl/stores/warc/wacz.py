"""WACZ: WARC files, their index and a list of pages in a ZIP file, for replay tools such as ReplayWeb.page.

The standard: https://specs.webrecorder.net/wacz/1.1.1/

Only a chunk of each index, and every 300th line of the merged index, are in memory. WARC files and index are stored
without compression, because readers fetch ranges of them.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from webcrawl.errors import StoreError
from webcrawl.stores.group_commit import batched
from webcrawl.stores.warc import cdxj
from webcrawl.stores.warc.cdxj import REVISIT
from webcrawl.stores.warc.files import WARC, StoredFile, WarcLocation
from webcrawl.stores.warc.reading import StoredRecord

VERSION = "1.1.1"
REFERRED = f"other-crawls{WARC}"
"""The name of the WARC file with records of other crawls."""
_CHUNK = 4 * 1024 * 1024
_INDEX_CHUNK = 128 * 1024
_LINES = 300
_PAGES = 500
_PAGES_HEADER = {"format": "json-pages-1.0", "id": "pages", "title": "All Pages"}


class Capture(NamedTuple):
    """A line of the index. `digest` is that of the payload, `mime_type` of a revisit is REVISIT."""

    url: str
    timestamp: str
    mime_type: str
    location: WarcLocation
    digest: str = ""
    status: str = "200"


class ReferredRecord(NamedTuple):
    """A record in another crawl with the payload of a revisit: its header, its gzip member, the revisit's status."""

    record: StoredRecord
    member: Iterable[bytes]
    revisit_status: str


class Contents(NamedTuple):
    """The counts of a WACZ file."""

    files: int
    records: int
    pages: int
    without_body: int
    """The number of 304 responses whose body is not in the file, for example because another crawl archived it."""


Referred = Callable[[Iterable[Capture], frozenset[str]], Iterable[ReferredRecord]]
"""Returns the records with the payloads of revisits that are in none of the named files."""
Describe = Callable[[Sequence[Capture]], Iterable[dict[str, Any] | None]]
"""Returns the facts of a capture for the list of pages, such as {"title": ...}; None if it is not a page."""


def write(
    output: Path,
    warcs: Sequence[tuple[StoredFile, StoredFile]],
    describe: Describe,
    *,
    referred: Referred | None = None,
    title: str,
    software: str,
) -> Contents:
    """Packs WARC files with their indexes into the new file `output`. Raises StoreError or OSError.

    With `referred`, a further WARC file has the records of other crawls to which revisits refer. Such a record of a 304
    is in the list of pages, because the 304 is not.
    """
    with zipfile.ZipFile(output, "w") as file, tempfile.TemporaryFile(dir=output.parent) as pages:
        package = _Package(file)
        for warc, _ in warcs:
            package.add(f"archive/{warc.name}", warc.chunks(_CHUNK), warc.size)
        others = _OtherCrawls()
        if referred is not None:
            revisits = (capture for capture in map(_capture, _merged(warcs)) if capture.mime_type == REVISIT)
            others.add(package, referred(revisits, frozenset(warc.name for warc, _ in warcs)), output.parent)
        listed = _Pages(describe, others.unlisted)
        index = _Index()
        unmodified = _Unmodified(others.digests)
        lines = unmodified.counted(heapq.merge(_merged(warcs), sorted(others.lines)))
        package.add("indexes/index.cdx.gz", index.compressed(listed.taken(lines, pages.write)))
        package.add("indexes/index.idx", index.blocks)
        pages.seek(0)
        package.add("pages/pages.jsonl", iter(lambda: pages.read(_CHUNK), b""), deflate=True)
        package.finish(title, software)
    return Contents(len(warcs), index.records, listed.count, unmodified.without_body)


class _OtherCrawls:
    """A WARC file with the records of other crawls to which revisits refer.

    lines     the lines of its index
    unlisted  the lines that are not in the list of pages, because their revisits are
    digests   the digests of the payloads
    """

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.unlisted: set[bytes] = set()
        self.digests: set[str] = set()

    def add(self, package: _Package, records: Iterable[ReferredRecord], folder: Path) -> None:
        """Copies records into the package, by way of a temporary file in `folder`."""
        size = 0
        with tempfile.TemporaryFile(dir=folder) as file:
            for referred in records:
                offset = size
                for chunk in referred.member:
                    file.write(chunk)
                    size += len(chunk)
                line = cdxj.line(referred.record, REFERRED, offset, size - offset)
                if line is not None:
                    self.lines.append(line)
                    self.digests.add(referred.record.headers.get("WARC-Payload-Digest", ""))
                    if referred.revisit_status != "304":
                        self.unlisted.add(line)
            if size:
                file.seek(0)
                package.add(f"archive/{REFERRED}", iter(lambda: file.read(_CHUNK), b""), size)


class _Package:
    """The ZIP file, and the entries of its files in datapackage.json."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file
        self._resources: list[dict[str, Any]] = []

    def add(self, path: str, chunks: Iterable[bytes], size: int = 0, *, deflate: bool = False) -> None:
        """Adds a file. `size` must be given if it may be over 4 GB."""
        info = zipfile.ZipInfo(path, time.gmtime()[:6])
        info.compress_type = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
        info.external_attr = 0o644 << 16
        sha256, written = hashlib.sha256(), 0
        # a file of unknown size may need ZIP64
        with self._file.open(info, "w", force_zip64=not size or size >= zipfile.ZIP64_LIMIT) as target:
            for chunk in chunks:
                target.write(chunk)
                sha256.update(chunk)
                written += len(chunk)
        if size and written != size:
            raise StoreError(f"{path.rpartition('/')[2]} has {written} bytes instead of {size}")
        self._resources.append(
            {
                # frictionless data packages require lower case
                "name": path.rpartition("/")[2].lower(),
                "path": path,
                "hash": f"sha256:{sha256.hexdigest()}",
                "bytes": written,
            }
        )

    def finish(self, title: str, software: str) -> None:
        package = {
            "profile": "data-package",
            "resources": self._resources,
            "title": title,
            "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "wacz_version": VERSION,
            "software": software,
        }
        data = json.dumps(package, indent=2).encode()
        digest = {"path": "datapackage.json", "hash": f"sha256:{hashlib.sha256(data).hexdigest()}"}
        for name, contents in (
            ("datapackage.json", data),
            ("datapackage-digest.json", json.dumps(digest, indent=2).encode()),
        ):
            self._file.writestr(zipfile.ZipInfo(name, time.gmtime()[:6]), contents, zipfile.ZIP_DEFLATED)


class _Index:
    """The merged index in compressed blocks ("ZipNum"), and the offsets of the blocks."""

    def __init__(self) -> None:
        self.records = 0
        meta = {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}
        self.blocks = [b"!meta 0 %s\n" % json.dumps(meta).encode()]

    def compressed(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        offset = 0
        for block in batched(lines, _LINES):
            self.records += len(block)
            stream = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
            data = stream.compress(b"".join(block)) + stream.flush()
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
            block_facts = {
                "offset": offset,
                "length": len(data),
                "digest": digest,
                "filename": "index.cdx.gz",
            }
            first = block[0].partition(b"{")[0].strip()
            self.blocks.append(b"%s %s\n" % (first, json.dumps(block_facts).encode()))
            offset += len(data)
            yield data


class _Pages:
    """Writes the list of pages while the index lines pass through."""

    def __init__(self, describe: Describe, unlisted: Set[bytes]) -> None:
        self.count = 0
        self._describe = describe
        self._unlisted = unlisted

    def taken(self, lines: Iterable[bytes], write: Callable[[bytes], object]) -> Iterator[bytes]:
        """Yields the same lines; writes the lines that are pages."""
        write(json.dumps(_PAGES_HEADER).encode() + b"\n")
        for batch in batched(lines, _PAGES):
            listed = [_capture(line) for line in batch if line not in self._unlisted]
            captures = [capture for capture in listed if capture.status == "200"]
            for capture, facts in zip(captures, self._describe(captures), strict=True):
                if facts is not None:
                    moment = datetime.strptime(capture.timestamp, "%Y%m%d%H%M%S")
                    # without an ID, the validator of py-wacz rejects pages without title
                    name = xxhash.xxh3_64_hexdigest(f"{capture.timestamp} {capture.url}".encode())
                    page = {"id": name, "url": capture.url, "ts": f"{moment.isoformat()}Z", **facts}
                    write(json.dumps(page, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
                    self.count += 1
            yield from batch


class _Unmodified:
    """Counts 304 responses whose body is in no earlier record of the URL, while the index lines pass through.

    `digests` are those of further records.
    """

    def __init__(self, digests: Set[str]) -> None:
        self.without_body = 0
        self._digests = digests

    def counted(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yields the same lines, which are sorted by URL and time."""
        for _, of_url in itertools.groupby(lines, lambda line: line.partition(b" ")[0]):
            digests: set[str] = set()
            for line in of_url:
                facts = json.loads(line.split(b" ", 2)[2])
                if facts["mime"] != REVISIT:
                    digests.add(facts["digest"])
                elif facts["status"] == "304":
                    has_body = facts["digest"] in digests or facts["digest"] in self._digests
                    self.without_body += not has_body
                yield line


def check_index(warc: StoredFile, index: StoredFile) -> None:
    """Raises StoreError for an index that is cut short, has a line that is none, or a record beyond the WARC file."""
    try:
        for line in _lines(index):
            capture = _capture(line)
            datetime.strptime(capture.timestamp, "%Y%m%d%H%M%S")
            if capture.location.offset + capture.location.length > warc.size:
                raise StoreError("it is cut short: its index has a record beyond its end")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StoreError(f"its index is damaged: {error}") from error


def _capture(line: bytes) -> Capture:
    _, timestamp, facts = line.split(b" ", 2)
    index_facts = json.loads(facts)
    url, mime_type, digest, status = (index_facts[name] for name in ("url", "mime", "digest", "status"))
    location = WarcLocation(index_facts["filename"], int(index_facts["offset"]), int(index_facts["length"]))
    return Capture(url, timestamp.decode(), mime_type, location, digest, status)


def _merged(warcs: Iterable[tuple[StoredFile, StoredFile]]) -> Iterator[bytes]:
    return heapq.merge(*(_lines(index) for _, index in warcs))


def _lines(index: StoredFile) -> Iterator[bytes]:
    rest = b""
    for chunk in index.chunks(_INDEX_CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        raise StoreError(f"{index.name} is cut short")
