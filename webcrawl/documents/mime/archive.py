"""Lists the members of archives from their tables of contents. Tar archives have none: their headers are read.

The table of a 7z archive may be compressed in many ways. It is not read: the facts of a 7z archive are its format.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts
from webcrawl.errors import ArchiveLimitReached, UnreadableDocument

MAX_MEMBERS = 20_000
SHOWN_MEMBERS = 100
MAX_BYTES = 1024 * 1024 * 1024
"""The most unpacked bytes that are read from a compressed tar archive to list its members."""

_SEVEN_ZIP = b"7z\xbc\xaf\x27\x1c"
_TAR_AT = 257
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError, OSError)
_OPENERS: dict[bytes, tuple[str, Callable[[BinaryIO], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda file: gzip.GzipFile(fileobj=file)),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\xfd7zXZ\x00": ("xz", lzma.LZMAFile),
}


def read(document: Document) -> Facts:
    """Returns the facts of an archive; raises UnreadableDocument."""
    try:
        return Facts(details=_contents(document))
    except (*_BROKEN, struct.error) as error:
        raise UnreadableDocument(f"is broken: {error}") from error


def _contents(document: Document) -> dict[str, Any]:
    start = document.start(512)
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip(document)
    if start.startswith(_SEVEN_ZIP):
        return {"format": "7z"}
    if start.startswith(b"Rar!\x1a\x07"):
        from webcrawl.documents.mime import rar  # imported here because few archives need the library

        return rar.contents(document.open(), SHOWN_MEMBERS, MAX_MEMBERS)
    if start[_TAR_AT : _TAR_AT + 5] == b"ustar":
        return _tar(document.open(), "tar")
    for magic, (name, opened) in _OPENERS.items():
        if start.startswith(magic):
            with opened(document.open()) as stream:
                head = stream.read(512)
            if head[_TAR_AT : _TAR_AT + 5] != b"ustar":
                return {"format": name}
            with opened(document.open()) as stream:
                return _tar(cast("BinaryIO", _Bounded(stream)), f"tar, {name}")
    if document.mime_type == "application/x-tar":  # the oldest tar format has no magic number
        return _tar(document.open(), "tar")
    raise UnreadableDocument("is broken, or an archive of an unsupported kind")


def _zip(document: Document) -> dict[str, Any]:
    with zipfile.ZipFile(document.open()) as archive:
        members = archive.infolist()
    return {
        "format": "zip",
        "members": len(members),
        "unpacked": sum(member.file_size for member in members),
        "names": [member.filename for member in members[:SHOWN_MEMBERS]],
        "encrypted": any(member.flag_bits & 1 for member in members) or None,
    }


def _tar(stream: BinaryIO, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {"format": name, "members": 0, "unpacked": 0, "names": []}
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                details["members"] += 1
                details["unpacked"] += member.size
                if len(details["names"]) < SHOWN_MEMBERS:
                    details["names"].append(member.name)
                if details["members"] == MAX_MEMBERS:
                    details["cut"] = True
                    break
    except ArchiveLimitReached:
        details["cut"] = True
    except _BROKEN:
        if not details["members"]:
            raise
        details["broken"] = True
    return details


class _Bounded(io.RawIOBase):
    """An unpacked stream that raises ArchiveLimitReached after `MAX_BYTES`."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._left = MAX_BYTES

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveLimitReached
        return data
