"""Reads the table of contents of a 7z archive, which is at its end and usually compressed too.

Source: 7zFormat.txt of the LZMA SDK. Only the table is unpacked. A count must not exceed the number of bytes that are
left, so that no loop is longer than the table. The names of members include folders.
"""

from __future__ import annotations

import lzma
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from webcrawl.errors import BrokenArchive, UnreadableDocument

MAX_BYTES = 32 * 1024 * 1024
"""The limit of a table of contents, packed or unpacked."""
SIGNATURE = b"7z\xbc\xaf\x27\x1c"

_HEAD = struct.Struct("<6s2xI")
_PLACE = struct.Struct("<QQI")
_MAX_PACKED = 4
"""How many times a table may be packed; once is usual."""
_COPY, _LZMA, _LZMA2, _AES = b"\x00", b"\x03\x01\x01", b"\x21", b"\x06\xf1\x07\x01"
(
    _END,
    _HEADER,
    _PROPERTIES,
    _MORE_STREAMS,
    _MAIN_STREAMS,
    _FILES,
    _PACKED,
    _FOLDERS,
    _SUBSTREAMS,
    _SIZES,
    _DIGESTS,
    _FOLDER,
    _UNPACKED_SIZES,
    _STREAM_COUNTS,
) = range(14)
_NAMES, _PACKED_HEADER = 0x11, 0x17


@dataclass(slots=True)
class _Packing:
    """How streams that are packed together (a "folder" in 7z) are packed, and their unpacked size."""

    coders: list[tuple[bytes, bytes]]
    outputs: int
    last: int
    """The number of the output that no coder takes as its input."""
    size: int = 0
    digest: int | None = None
    streams: int = 1


@dataclass(slots=True)
class _Streams:
    place: int = 0
    sizes: list[int] = field(default_factory=list)
    packings: list[_Packing] = field(default_factory=list)


def contents(file: BinaryIO, shown: int) -> dict[str, Any]:
    """Returns what the table tells, with the first `shown` names.

    Raises UnreadableDocument if it is encrypted or too large; BrokenArchive, lzma.LZMAError, struct.error or ValueError
    if it is damaged.
    """
    table = _Table(_header(file))
    while table.number() == _PACKED_HEADER:
        streams = table.streams()
        table.depth += 1
        if table.depth > _MAX_PACKED or len(streams.packings) != 1 or not streams.sizes:
            raise BrokenArchive("its table of contents is packed in an unsupported way")
        file.seek(_HEAD.size + _PLACE.size + streams.place)
        depth, table = table.depth, _Table(_unpacked(file, streams.sizes[0], streams.packings[0]))
        table.depth = depth
    found: dict[str, Any] = {"format": "7z", "members": 0, "unpacked": 0, "names": []}
    while (kind := table.number()) != _END:
        if kind == _PROPERTIES:
            table.skip_properties()
        elif kind in (_MORE_STREAMS, _MAIN_STREAMS):
            packings = table.streams().packings
            if kind == _MAIN_STREAMS:
                found["unpacked"] = sum(one.size for one in packings)
                found["solid"] = any(one.streams > 1 for one in packings) or None
                found["encrypted"] = any(name == _AES for one in packings for name, _ in one.coders) or None
        elif kind == _FILES:
            found["members"], found["names"] = table.files(shown)
        else:
            raise BrokenArchive(f"its table of contents has an entry of kind {kind}")
    return found


def _header(file: BinaryIO) -> bytes:
    head, place = file.read(_HEAD.size), file.read(_PLACE.size)
    signature, digest = _HEAD.unpack(head)
    if signature != SIGNATURE or zlib.crc32(place) != digest:
        raise BrokenArchive("it has no valid header")
    start, size, digest = _PLACE.unpack(place)
    if not size:
        return bytes([_HEADER, _END])
    if size > MAX_BYTES:
        raise UnreadableDocument(f"has a table of contents of {size:,} bytes, more than is read")
    file.seek(_HEAD.size + _PLACE.size + start)
    data = file.read(size)
    if len(data) < size or zlib.crc32(data) != digest:
        raise BrokenArchive("it has no table of contents at its end")
    return data


def _unpacked(file: BinaryIO, size: int, packing: _Packing) -> bytes:
    if any(name == _AES for name, _ in packing.coders):
        raise UnreadableDocument("is protected by a password")
    if max(size, packing.size) > MAX_BYTES:
        raise UnreadableDocument(f"has a table of contents of {packing.size:,} bytes, more than is read")
    data = file.read(size)
    if len(packing.coders) != 1:
        raise BrokenArchive("its table of contents is packed in an unsupported way")
    name, options = packing.coders[0]
    if name != _COPY:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[_filter(name, options, packing.size)])
        data = unpacker.decompress(data, packing.size)
    if len(data) != packing.size or packing.digest not in (None, zlib.crc32(data)):
        raise BrokenArchive("its table of contents is damaged")
    return data


def _filter(name: bytes, options: bytes, size: int) -> dict[str, int]:
    """Returns the options of LZMA, with a window no larger than the unpacked size."""
    most = max(size, 4096)
    if name == _LZMA and len(options) == 5:
        rest, literals = divmod(options[0], 9)
        positions, literal_positions = divmod(rest, 5)
        window = int.from_bytes(options[1:], "little")
        return {
            "id": lzma.FILTER_LZMA1,
            "dict_size": max(4096, min(window, most)),
            "lc": literals,
            "lp": literal_positions,
            "pb": positions,
        }
    if name == _LZMA2 and len(options) == 1:
        return {"id": lzma.FILTER_LZMA2, "dict_size": most}
    raise BrokenArchive("its table of contents is packed in an unsupported way")


class _Table:
    """Reads a table; raises BrokenArchive if it ends too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0
        self.depth = 0

    def take(self, size: int) -> bytes:
        end = self._place + size
        if end > len(self._data):
            raise BrokenArchive("its table of contents ends too early")
        taken, self._place = self._data[self._place : end], end
        return taken

    def number(self) -> int:
        """Reads a number: leading ones of its first byte count the bytes after it, the other bits are the highest."""
        first = self.take(1)[0]
        more = 8 - (first ^ 0xFF).bit_length()
        low = int.from_bytes(self.take(more), "little")
        return low | (first & 0x7F >> more) << 8 * more

    def skip_properties(self) -> None:
        while self.number() != _END:
            self.take(self.number())

    def streams(self) -> _Streams:
        """Reads where the packed streams are, how they are packed, and how many streams each contains."""
        found = _Streams()
        while (kind := self.number()) != _END:
            if kind == _PACKED:
                found.place, found.sizes = self._packed()
            elif kind == _FOLDERS:
                found.packings = self._packings()
            elif kind == _SUBSTREAMS:
                self._substreams(found.packings)
            else:
                raise BrokenArchive(f"its streams have a part of kind {kind}")
        return found

    def files(self, shown: int) -> tuple[int, list[str]]:
        """Reads the number of files and the first names."""
        count, names = self.number(), [""]
        if count > len(self._data):
            raise BrokenArchive(f"it has no room for {count} names")
        while (kind := self.number()) != _END:
            data = self.take(self.number())
            if kind == _NAMES:
                names = data[1:].decode("utf-16-le", "replace").split("\0")
        return count, names[: min(shown, count)]

    def _packed(self) -> tuple[int, list[int]]:
        place, count, sizes = self.number(), self.number(), []
        while (kind := self.number()) != _END:
            if kind == _SIZES:
                sizes = [self.number() for _ in self._counted(count)]
            else:
                self._digests(kind, count)
        return place, sizes

    def _packings(self) -> list[_Packing]:
        if self.number() != _FOLDER:
            raise BrokenArchive("its packing is not described")
        count = self.number()
        if self.take(1) != b"\0":
            raise BrokenArchive("its packing is described in an external stream")
        found = [self._packing() for _ in self._counted(count)]
        while (kind := self.number()) != _END:
            if kind == _UNPACKED_SIZES:
                for one in found:
                    one.size = [self.number() for _ in range(one.outputs)][one.last]
            else:
                for one, digest in zip(found, self._digests(kind, count), strict=True):
                    one.digest = digest
        return found

    def _packing(self) -> _Packing:
        coders, inputs, outputs = [], 0, 0
        for _ in self._counted(self.number()):
            about = self.take(1)[0]
            name = self.take(about & 15)
            more_in, more_out = (self.number(), self.number()) if about & 0x10 else (1, 1)
            inputs, outputs = inputs + more_in, outputs + more_out
            coders.append((name, self.take(self.number()) if about & 0x20 else b""))
        taken = {(self.number(), self.number())[1] for _ in self._counted(outputs - 1)}
        if inputs - (outputs - 1) > 1:
            for _ in self._counted(inputs - (outputs - 1)):
                self.number()
        last = next((number for number in range(outputs) if number not in taken), None)
        if last is None:
            raise BrokenArchive("its coders have no output")
        return _Packing(coders, outputs, last)

    def _substreams(self, packings: list[_Packing]) -> None:
        while (kind := self.number()) != _END:
            if kind == _STREAM_COUNTS:
                for one in packings:
                    one.streams = self.number()
            elif kind == _SIZES:
                for one in packings:
                    for _ in self._counted(max(one.streams - 1, 0)):
                        self.number()
            else:
                unknown = [one.streams for one in packings if one.streams != 1 or one.digest is None]
                self._digests(kind, sum(unknown))

    def _digests(self, kind: int, count: int) -> list[int | None]:
        if kind != _DIGESTS:
            raise BrokenArchive(f"its streams have a part of kind {kind}")
        if self.take(1) != b"\0":
            known = [True for _ in self._counted(count)]
        else:
            bits = self.take((count + 7) // 8)
            known = [bool(bits[number // 8] & 0x80 >> number % 8) for number in range(count)]
        return [int.from_bytes(self.take(4), "little") if one else None for one in known]

    def _counted(self, count: int) -> range:
        """Returns the range of a loop that reads at least a byte each time; raises BrokenArchive if it is too long."""
        if count > len(self._data) - self._place:
            raise BrokenArchive("its table of contents ends too early")
        return range(count)
