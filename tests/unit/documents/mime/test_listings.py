"""Listings of 7z and RAR archives from their headers."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import pytest

from tests.documents import SEVEN_ZIP, rar, rar4
from tests.documents.packed import SEVEN_ZIP_ENCRYPTED, SEVEN_ZIP_LOCKED, rar_locked
from webcrawl.documents.document import Document
from webcrawl.documents.mime import archive, seven_zip
from webcrawl.documents.mime.facts import Facts
from webcrawl.documents.mime.reader import call
from webcrawl.errors import UnreadableDocument

Read = Callable[..., Facts]
ARCHIVE = "webcrawl.documents.mime.archive:read"
RAR, SEVEN = "application/vnd.rar", "application/x-7z-compressed"


def test_7z_archive_is_listed(read: Read) -> None:
    assert read(ARCHIVE, SEVEN_ZIP, SEVEN).details == {
        "format": "7z",
        "members": 4,
        "unpacked": 18,
        "names": ["b", "empty", "a.txt", "b/größe.txt"],
        "solid": True,
    }
    details = read(ARCHIVE, SEVEN_ZIP_ENCRYPTED, SEVEN).details
    assert (details["names"], details["encrypted"]) == (["a.txt"], True)
    assert read(ARCHIVE, table(b"", size=0), SEVEN).details["members"] == 0


@pytest.mark.parametrize("made", [rar, rar4])
def test_rar_archive_is_listed(made: Callable[..., bytes], read: Read) -> None:
    assert read(ARCHIVE, made("a/b.txt", "grüße"), RAR).details == {
        "format": "rar",
        "members": 2,
        "unpacked": 200,
        "names": ["a/b.txt", "grüße"],
    }


def test_rar_flags_and_truncation_are_reported(read: Read) -> None:
    assert read(ARCHIVE, rar("a", solid=True), RAR).details["solid"] is True
    assert read(ARCHIVE, rar4("a", encrypted=True), RAR).details["encrypted"] is True
    assert read(ARCHIVE, rar("a", "b", ended=False), RAR).details["members"] == 2
    cut = read(ARCHIVE, rar("a", "b", ended=False)[:-50], RAR).details
    assert (cut["members"], cut["broken"]) == (2, True)


@pytest.mark.parametrize(
    ("body", "mime_type"), [(rar_locked(), RAR), (SEVEN_ZIP_LOCKED, SEVEN)], ids=["rar", "7z"]
)
def test_archive_with_encrypted_names_is_refused(body: bytes, mime_type: str, read: Read) -> None:
    with pytest.raises(UnreadableDocument, match="is protected by a password"):
        read(ARCHIVE, body, mime_type)


def table(data: bytes, *, size: int | None = None) -> bytes:
    """A 7z file with the given table of contents."""
    place = struct.pack("<QQI", 0, len(data) if size is None else size, zlib.crc32(data))
    return seven_zip.SIGNATURE + struct.pack("<2xI", zlib.crc32(place)) + place + data


HUGE = b"\xff" + b"\xff" * 7 + b"\x7f"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (seven_zip.SIGNATURE, "is broken"),
        (SEVEN_ZIP[:-5], "no table of contents at its end"),
        (SEVEN_ZIP[:-1] + b"\1", "no table of contents at its end"),
        (table(b"\x01\x05" + HUGE), "no room for"),
        (table(b"\x01\x04\x06\0" + HUGE + b"\x09"), "ends too early"),
        (table(b"\x01\x04\x06\0" + HUGE + b"\x0a\0"), "ends too early"),
        (table(b"\x01\x04\x07\x0b" + HUGE), "ends too early"),
        (table(b"\x01\x04\x07\x0b\x01\0\x01\x11\0" + HUGE + HUGE), "ends too early"),
        (table(b"\x01\x05\x01\x19" + HUGE), "ends too early"),
        (table(b"\x01\x77"), "kind 119"),
        (table(b"", size=2**40), "more than is read"),
        (table(b"\x17\0"), "packed in an unsupported way"),
        (table(b"\x01\x04" * 100_000), "is broken"),
        (b"Rar!\x1a\x07\x01\0", "is broken"),
        (b"Rar!\x1a\x07\x01\0" + HUGE * 9, "is broken"),
        (b"Rar!\x1a\x07\x05\0nothing", "is broken"),
        (rar("a")[:20], "is broken"),
    ],
)
def test_broken_archive_is_refused(body: bytes, error: str, read: Read) -> None:
    with pytest.raises(UnreadableDocument, match=error):
        read(ARCHIVE, body, RAR)


def test_too_large_compressed_table_is_refused(read: Read) -> None:
    size = b"\xff" + (2**40).to_bytes(8, "little")
    packed = (
        b"\x17\x06\0\x01\x09\x05\0\x07\x0b\x01\0\x01\x23\x03\x01\x01\x05\x5d\xff\xff\xff\xff\x0c"
        + size
        + b"\0\0"
    )
    with pytest.raises(UnreadableDocument, match="more than is read"):
        read(ARCHIVE, table(packed), SEVEN)


def test_number_of_listed_members_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_MEMBERS", 5)
    monkeypatch.setattr(archive, "SHOWN_MEMBERS", 3)
    document = Document(rar(*map(str, range(50))), RAR, None, "http://site.example/")
    details = call(ARCHIVE, document).details
    assert (details["members"], details["names"], details["cut"]) == (5, ["0", "1", "2"], True)
