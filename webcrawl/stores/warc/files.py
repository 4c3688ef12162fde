"""WARC files in a folder: their names, and reading them.

A file has the suffix `.open` and a lock (flock) while it is written, and loses both when it is finished. Files
of texts have no index.
"""

from __future__ import annotations

import os
import re
import socket
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from webcrawl.documents.disk import failure
from webcrawl.errors import StoreError
from webcrawl.stores.warc.reading import StoredRecord, inflated, parse

OPEN = ".open"
WARC, INDEX = FINISHED = (".warc.gz", ".cdxj")
"""The suffixes of a finished file and of its index."""
ROBOTSTXT = f".robotstxt{WARC}"
"""The suffix of a finished file of robots.txt fetches: its name differs from all files of pages."""
WET, MARKDOWN = ".warc.wet.gz", ".warc.md.gz"
"""The suffixes of finished files of texts, and of their Markdown."""
RECORDS = (WARC, WET, MARKDOWN)
"""The suffixes of finished files, without their indexes."""

_CHUNK = 1 << 20
_NAME = re.compile(r"(.*?)-\d{17}-\d{5,}-\d+-")
_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")


class WarcLocation(NamedTuple):
    """The location of a record: the file name without `.open`, and offset and length of the gzip member in bytes."""

    file: str
    offset: int
    length: int


class StoredFile(NamedTuple):
    """A finished file in any store. `read(offset, length)` returns fewer bytes only at the end of the file."""

    name: str
    size: int
    read: Callable[[int, int], bytes]

    def chunks(self, length: int) -> Iterator[bytes]:
        """Yields the whole file in chunks of `length` bytes."""
        for offset in range(0, self.size, length):
            yield self.read(offset, min(length, self.size - offset))


def stored_files(folder: Path) -> Iterator[StoredFile]:
    """Yields the finished WARC files and indexes in a folder, by name. Keeps none of them open."""

    def reader(path: Path) -> Callable[[int, int], bytes]:
        def read(offset: int, length: int) -> bytes:
            try:
                with path.open("rb") as file:
                    file.seek(offset)
                    return file.read(length)
            except OSError as error:
                raise failure("read", path, error) from error

        return read

    for path in sorted(folder.iterdir()):
        if path.name.endswith(FINISHED):
            yield StoredFile(path.name, path.stat().st_size, reader(path))


def read_record(path: Path, offset: int, length: int) -> StoredRecord:
    """Returns the record whose gzip member is `length` bytes at `offset`. The file may still be open for writing."""
    data = b"".join(read_member(path, offset, length))
    try:
        return parse(inflated(data))
    except (zlib.error, StoreError) as error:
        raise StoreError(f"{path} has no record at byte {offset}: {error}") from error


def read_member(path: Path, offset: int, length: int) -> Iterator[bytes]:
    """Yields the gzip member of a record, in chunks of at most a megabyte; see `read_record`."""
    # the third attempt is for a file that is finished, and renamed, between the first two
    for candidate in (path, path.with_name(path.name + OPEN), path):
        try:
            with candidate.open("rb") as file:
                file.seek(offset)
                while chunk := file.read(min(length, _CHUNK)):
                    length -= len(chunk)
                    yield chunk
            return
        except FileNotFoundError:
            continue
        except OSError as error:
            raise failure("read", candidate, error) from error
    raise StoreError(f"{path} does not exist. STORE_URI must be that of the crawl")


def index_name(name: str) -> str:
    """Returns the name of the index of a WARC file."""
    return name.removesuffix(WARC) + INDEX


def crawl_of(name: str) -> str | None:
    """Returns the prefix of the crawl that wrote a WARC file, from its name; None for files of other software."""
    match = _NAME.match(name)
    return match[1] if match else None


def host_part(hostname: str) -> str:
    """Returns a host name as part of a file name."""
    return _UNSAFE.sub("_", hostname)


def unique_name(crawl: str, serial: int) -> str:
    """Returns a new file name without suffix: crawl, time, serial number in this process, process, machine."""
    stamp = datetime.now(UTC).strftime("%Y%m%d%H%M%S%f")[:17]
    return f"{prefix_of(crawl)}-{stamp}-{serial:05}-{os.getpid()}-{host_part(socket.gethostname())}"


def prefix_of(crawl: str) -> str:
    """Returns the prefix of the names of a crawl's files, before the first dash."""
    return _UNSAFE.sub("_", crawl)
