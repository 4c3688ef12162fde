"""Recognizes MIME types by the first bytes, after section 6 of the WHATWG MIME Sniffing standard.

See https://mimesniff.spec.whatwg.org/. Differences: more types are recognized (AVIF, HEIC, QuickTime, Matroska,
archives, zipped documents), and the letters "BM" are not enough for a bitmap, because a text may begin with them.
"""

from __future__ import annotations

import re

_TABLE: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), mime_type)
    for pattern, mime_type in (
        (rb"\x89PNG\r\n\x1a\n", "image/png"),
        (rb"\xff\xd8\xff", "image/jpeg"),
        (rb"GIF8[79]a", "image/gif"),
        (rb"RIFF....WEBPVP", "image/webp"),
        (rb"BM.{4}\x00\x00\x00\x00", "image/bmp"),
        (rb"\x00\x00[\x01\x02]\x00", "image/x-icon"),
        (rb"OggS\x00", "application/ogg"),
        (rb"RIFF....WAVE", "audio/wave"),
        (rb"RIFF....AVI ", "video/avi"),
        (rb"FORM....AIFF", "audio/aiff"),
        (rb"ID3", "audio/mpeg"),
        (rb"fLaC\x00", "audio/flac"),
        (rb"MThd\x00\x00\x00\x06", "audio/midi"),
        (rb"FLV\x01", "video/x-flv"),
        (rb".{34}LP", "application/vnd.ms-fontobject"),
        (rb"\x00\x01\x00\x00", "font/ttf"),
        (rb"OTTO", "font/otf"),
        (rb"ttcf", "font/collection"),
        (rb"wOFF", "font/woff"),
        (rb"wOF2", "font/woff2"),
        (rb"\x1f\x8b\x08", "application/gzip"),
        (rb"PK\x03\x04", "application/zip"),
        (rb"Rar!\x1a\x07", "application/vnd.rar"),
        (rb"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
        (rb"BZh[1-9]1AY&SY", "application/x-bzip2"),
        (rb"\xfd7zXZ\x00", "application/x-xz"),
        (rb"\x28\xb5\x2f\xfd", "application/zstd"),
        (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
        (rb"\x7fELF", "application/x-executable"),
        (rb"\x00asm", "application/wasm"),
    )
)
# The only signatures that consist of text.
_PRINTABLE = {b"%PDF-": "application/pdf", b"%!PS-Adobe-": "application/postscript"}
_TEXT_BYTES = bytes(byte for byte in range(256) if byte >= 32 or byte in b"\t\n\f\r\x1b")

_BRANDS = {
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heif",
    b"qt  ": "video/quicktime",
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
}
# A zip file's first entry: 30 bytes, its name, its extra field, its contents.
_FIRST_NAME = 30
_NAMED = re.compile(
    rb"PK\x03\x04.{26}mimetype(application/(?:epub\+zip|vnd\.oasis\.opendocument\.[a-z-]+))", re.DOTALL
)
_OFFICE = {
    # \0 is the end of the header of an entry, so this is the start of a name
    b"\0word/": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    b"\0xl/": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    b"\0ppt/": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
_DOCUMENT_TYPES = {b"webm": "video/webm", b"matroska": "video/x-matroska"}
_EBML = b"\x1aE\xdf\xa3"
_DOCTYPE = b"\x42\x82"

STANDARD_TYPES = frozenset(
    {
        *(mime_type for _, mime_type in _TABLE),
        *_PRINTABLE.values(),
        *_BRANDS.values(),
        *_DOCUMENT_TYPES.values(),
        *_OFFICE.values(),
        "application/x-tar",
        "video/mp4",
    }
)
"""The types that `signature` recognizes without `add_signature`."""
_added: dict[re.Pattern[bytes], str] = {}

# MPEG audio: kbit/s and samples/s by their numbers in the header of a frame.
_RATES_1 = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_RATES_2 = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_SAMPLES = (44_100, 48_000, 32_000)


def add_signature(pattern: bytes, mime_type: str) -> None:
    """Makes `signature` return a type for text or binary files whose start the regular expression matches."""
    _added[re.compile(pattern, re.DOTALL)] = mime_type


def signature(start: bytes) -> str | None:
    """Returns the MIME type of a file by its first bytes, or None if no signature matches."""
    for pattern, added_type in _added.items():
        if pattern.match(start):
            return added_type
    if start.startswith(b"%"):
        return next(
            (mime_type for letters, mime_type in _PRINTABLE.items() if start.startswith(letters)), None
        )
    if not is_binary(start):
        return None
    mime_type = next((mime_type for pattern, mime_type in _TABLE if pattern.match(start)), None)
    if mime_type == "application/zip":
        return _zipped(start) or mime_type
    return mime_type or _mp4(start) or _webm(start) or _mp3(start) or _tar(start)


def is_binary(start: bytes) -> bool:
    """Returns whether there is a "binary data byte", which no text has."""
    return bool(start.translate(None, _TEXT_BYTES))


def _zipped(start: bytes) -> str | None:
    """Returns the type of a zipped document. OpenDocument and EPUB begin with it; OOXML has typical member names."""
    if match := _NAMED.match(start):
        return match[1].decode("ascii")
    if start[_FIRST_NAME:].startswith((b"[Content_Types].xml", b"_rels/", b"docProps/")):
        return next((mime_type for folder, mime_type in _OFFICE.items() if folder in start), None)
    return None


def _tar(start: bytes) -> str | None:
    """Recognizes POSIX and GNU tar by the magic number in the header of the first entry."""
    return "application/x-tar" if start[257:262] == b"ustar" else None


def _mp4(start: bytes) -> str | None:
    """Section 6.2.1, extended by the meaning of the major brand."""
    size = int.from_bytes(start[:4], "big")
    if start[4:8] != b"ftyp" or size < 12 or size % 4 or len(start) < min(size, 16):
        return None
    return _BRANDS.get(start[8:12]) or "video/mp4"


def _webm(start: bytes) -> str | None:
    """Section 6.2.2: EBML with its document type within the first 38 bytes."""
    if not start.startswith(_EBML):
        return None
    offset = start.find(_DOCTYPE, 4, 38 + len(_DOCTYPE))
    if offset < 0:
        return None
    name = start[offset + 2 + _number_length(start[offset + 2 : offset + 3]) :].lstrip(b"\0")
    return next((mime_type for word, mime_type in _DOCUMENT_TYPES.items() if name.startswith(word)), None)


def _number_length(first: bytes) -> int:
    """Returns the length of an EBML number from the leading zeros of its first byte."""
    return 9 - first[0].bit_length() if first and first[0] else 8


def _mp3(start: bytes) -> str | None:
    """Section 6.2.3: a frame, followed by another one."""
    size = _frame(start, 0)
    return "audio/mpeg" if size and _frame(start, size) else None


def _frame(start: bytes, offset: int) -> int:
    """Returns the size of the MPEG audio frame at `offset`, or 0 for none."""
    head = start[offset : offset + 4]
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return 0
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    rate, samples = head[2] >> 4, head[2] >> 2 & 3
    if version == 1 or layer != 1 or rate in (0, 15) or samples == 3:
        return 0
    # version 3 is MPEG-1, 2 is MPEG-2, 0 is MPEG-2.5
    bits = (_RATES_1 if version == 3 else _RATES_2)[rate] * 1000
    frequency = _SAMPLES[samples] // {3: 1, 2: 2, 0: 4}[version]
    return (144 if version == 3 else 72) * bits // frequency + (head[2] >> 1 & 1)
