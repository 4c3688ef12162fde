"""Images, audio, video and compound files, built byte by byte."""

from __future__ import annotations

import io
import struct
import wave
import zlib

import pillow_heif
from PIL import Image


def image(format: str = "PNG", size: tuple[int, int] = (64, 48), **options: object) -> bytes:
    """An image with a gradient from bright (left) to dark (right)."""
    if format == "HEIF":
        pillow_heif.register_heif_opener()
    with io.BytesIO() as file:
        Image.linear_gradient("L").rotate(270).resize(size).save(file, format, **options)
        return file.getvalue()


def png_bomb() -> bytes:
    """A PNG of some kilobytes with 65,000 x 65,000 pixels."""
    header = struct.pack(">IIBBBBB", 65_000, 65_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(3_000_000))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def wav(seconds: float = 1.0) -> bytes:
    with io.BytesIO() as file:
        with wave.open(file, "wb") as sound:
            sound.setparams((2, 2, 8_000, 0, "NONE", ""))
            sound.writeframes(bytes(int(seconds * 8_000) * 4))
        return file.getvalue()


def mp3(title: str = "", artist: str = "", *, frames: int = 100) -> bytes:
    """Silent MPEG audio, 128 kbit/s at 44.1 kHz (26 ms a frame), with an ID3 tag."""

    def tag(name: str, text: str) -> bytes:
        data = b"\x03" + text.encode()
        return name.encode() + struct.pack(">IH", len(data), 0) + data

    tags = tag("TIT2", title) + tag("TPE1", artist) if title else b""
    size = len(tags)
    head = b"ID3\x03\0\0" + bytes([size >> 21 & 127, size >> 14 & 127, size >> 7 & 127, size & 127])
    return head + tags + (b"\xff\xfb\x90\x00" + bytes(413)) * frames


def mp4(seconds: int = 5) -> bytes:
    """An MPEG-4 file with the header of one 320 x 240 H.264 track and no frames."""

    def box(name: bytes, *parts: bytes) -> bytes:
        data = b"".join(parts)
        return struct.pack(">I", 8 + len(data)) + name + data

    matrix = struct.pack(">9I", 65536, 0, 0, 0, 65536, 0, 0, 0, 1 << 30)
    duration = struct.pack(">IIII", 0, 0, 1000, seconds * 1000)
    mvhd = box(b"mvhd", bytes(4), duration, struct.pack(">IH10x", 65536, 256), matrix, bytes(24), b"\0\0\0\2")
    track = struct.pack(">IIIII", 0, 0, 1, 0, seconds * 1000)
    tkhd = box(b"tkhd", b"\0\0\0\7", track, bytes(16), matrix, struct.pack(">II", 320 << 16, 240 << 16))
    avc = box(b"avcC", b"\x01\x42\xe0\x1e\xff\xe0\x00")
    sample = box(b"avc1", struct.pack(">6xH16xHHII4xH32xHh", 1, 320, 240, 0x480000, 0x480000, 1, 24, -1), avc)
    stbl = box(
        b"stbl",
        box(b"stsd", struct.pack(">II", 0, 1), sample),
        *(box(name, bytes(8)) for name in (b"stts", b"stsc", b"stco")),
        box(b"stsz", bytes(12)),
    )
    mdia = box(
        b"mdia",
        box(b"mdhd", bytes(4), duration, struct.pack(">HH", 0x15C7, 0)),
        box(b"hdlr", bytes(8), b"vide", bytes(13)),
        box(b"minf", box(b"vmhd", bytes(12)), stbl),
    )
    return box(b"ftyp", b"isom", bytes(4), b"isomavc1") + box(b"moov", mvhd, box(b"trak", tkhd, mdia))


def webm(seconds: float = 5.0) -> bytes:
    """The header of a WebM file with one 320 x 240 VP9 track."""

    def element(number: int, data: bytes) -> bytes:
        size = (number.bit_length() + 7) // 8
        return number.to_bytes(size, "big") + struct.pack(">Q", len(data) | 1 << 56) + data

    head = element(0x1A45DFA3, element(0x4282, b"webm") + element(0x4287, b"\2") + element(0x4285, b"\2"))
    info = element(
        0x1549A966,
        element(0x2AD7B1, b"\x0f\x42\x40")
        + element(0x4489, struct.pack(">d", seconds * 1000))
        + element(0x7BA9, b"Clip"),
    )
    video = element(0xE0, element(0xB0, b"\x01\x40") + element(0xBA, b"\xf0"))
    entry = (
        element(0xD7, b"\1") + element(0x73C5, b"\1") + element(0x83, b"\1") + element(0x86, b"V_VP9") + video
    )
    return head + element(0x18538067, info + element(0x1654AE6B, element(0xAE, entry)))


def ole(title: str = "A title", author: str = "A. Author") -> bytes:
    """A compound file, the container of older office documents, with only summary information."""

    def text(value: str) -> bytes:
        data = value.encode("cp1252") + b"\0"
        return struct.pack("<II", 30, len(data)) + data + bytes(-len(data) % 4)

    values = {2: text(title), 4: text(author), 14: struct.pack("<II", 3, 12)}
    index, data = b"", b""
    for number, value in values.items():
        index += struct.pack("<II", number, 8 + 8 * len(values) + len(data))
        data += value
    section = struct.pack("<II", 8 + len(index) + len(data), len(values)) + index + data
    fmtid = bytes.fromhex("e0859ff2f94f6810ab9108002b27b3d9")
    stream = struct.pack("<HHI16xI", 0xFFFE, 0, 0x20006, 1) + fmtid + struct.pack("<I", 48) + section
    stream = stream.ljust(4096, b"\0")

    def entry(name: str, kind: int, child: int, start: int, size: int) -> bytes:
        coded = name.encode("utf-16-le") + b"\0\0"
        links = struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, child)
        return (
            coded.ljust(64, b"\0")
            + struct.pack("<HBB", len(coded), kind, 1)
            + links
            + bytes(36)
            + struct.pack("<IQ", start, size)
        )

    folder = entry("Root Entry", 5, 1, 0xFFFFFFFE, 0) + entry("\5SummaryInformation", 2, 0xFFFFFFFF, 2, 4096)
    table = [0xFFFFFFFD, 0xFFFFFFFE, *range(3, 10), 0xFFFFFFFE]
    fat = struct.pack(f"<{len(table)}I", *table).ljust(512, b"\xff")
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    header += struct.pack(
        "<HHHHH6xIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, 1, 1, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0
    )
    header += struct.pack("<I", 0).ljust(436, b"\xff")
    return header + fat + folder.ljust(512, b"\0") + stream
