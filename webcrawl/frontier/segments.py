"""Segments: objects that hold parts of queues that are too long for the engine.

A segment is written once and never changed: a first line, then parts one after the other. A part is the MessagePack
array of its entries, compressed by zlib on its own, so that it can be read alone. The engine keeps the offset, the
length and the checksum of each part.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import msgpack

from webcrawl.errors import NoSuchObject, PartLost
from webcrawl.stores.objects.store import ObjectStore

_FIRST_LINE = b"webcrawl segment 1\n"
_COMPRESSION = 6


@dataclass(frozen=True, slots=True)
class QueuePart:
    """Entries of one queue in a segment: offset and length in bytes, number of URLs, and checksum."""

    segment: str
    offset: int
    length: int
    urls: int
    checksum: str

    @classmethod
    def parse(cls, descriptor: bytes) -> Self:
        """Parses the descriptor of a part, which the engine keeps."""
        segment, offset, length, urls, checksum = descriptor.decode().split()
        return cls(segment, int(offset), int(length), int(urls), checksum)

    def descriptor(self) -> bytes:
        """Returns the descriptor, which `parse` reads."""
        return f"{self.segment} {self.offset} {self.length} {self.urls} {self.checksum}".encode()


def checksum(entries: Sequence[bytes]) -> str:
    """Returns a checksum of 64 bits in hexadecimal, which the scripts compute too."""
    return hashlib.sha1(b"".join(entries), usedforsecurity=False).hexdigest()[:16]


def pack(name: str, groups: Sequence[Sequence[bytes]]) -> tuple[bytes, list[QueuePart]]:
    """Returns a segment with a part for each group of entries, and these parts."""
    pieces, parts, offset = [_FIRST_LINE], [], len(_FIRST_LINE)
    for entries in groups:
        pieces.append(zlib.compress(msgpack.packb(list(entries)), _COMPRESSION))
        parts.append(QueuePart(name, offset, len(pieces[-1]), len(entries), checksum(entries)))
        offset += len(pieces[-1])
    return b"".join(pieces), parts


def unpack(raw: bytes, part: QueuePart) -> list[bytes]:
    """Returns the entries of a part; raises PartLost if its checksum differs."""
    try:
        entries = msgpack.unpackb(zlib.decompress(raw), raw=True)
        whole = isinstance(entries, list) and (len(entries), checksum(entries)) == (part.urls, part.checksum)
    except (zlib.error, ValueError, TypeError, msgpack.UnpackException):
        whole = False
    if not whole:
        raise PartLost("it is damaged")
    return list(entries)


def read_part(store: ObjectStore, name: str, part: QueuePart) -> list[bytes]:
    """Returns the entries of a part of the segment with this name in the store.

    Raises PartLost if the part is damaged or the segment does not exist, StoreError if the store fails.
    """
    try:
        raw = store.read(name, part.offset, part.length)
    except NoSuchObject as error:
        raise PartLost("it does not exist") from error
    return unpack(raw, part)
