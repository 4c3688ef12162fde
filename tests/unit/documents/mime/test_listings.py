"""Listings of RAR archives from their headers, and the format of archives that are not listed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cases import cases
from tests.documents import SEVEN_ZIP, rar, rar4
from tests.documents.packed import rar_locked
from webcrawl.documents.document import Document
from webcrawl.documents.mime import archive
from webcrawl.documents.mime.facts import Facts
from webcrawl.documents.mime.reader import call
from webcrawl.errors import UnreadableDocument

Read = Callable[..., Facts]
ARCHIVE = "webcrawl.documents.mime.archive:read"
RAR, SEVEN = "application/vnd.rar", "application/x-7z-compressed"


def test_7z_archive_is_named(read: Read) -> None:
    assert read(ARCHIVE, SEVEN_ZIP, SEVEN).details == {"format": "7z"}


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


def test_archive_with_encrypted_names_is_refused(read: Read) -> None:
    with pytest.raises(UnreadableDocument, match="is protected by a password"):
        read(ARCHIVE, rar_locked(), RAR)


HUGE = b"\xff" + b"\xff" * 7 + b"\x7f"


@cases(
    ("body", "error"),
    [
        (b"Rar!\x1a\x07\x01\0", "is broken"),
        (b"Rar!\x1a\x07\x01\0" + HUGE * 9, "is broken"),
        (b"Rar!\x1a\x07\x05\0nothing", "is broken"),
        (rar("a")[:20], "is broken"),
    ],
)
def test_broken_archive_is_refused(body: bytes, error: str, read: Read) -> None:
    with pytest.raises(UnreadableDocument, match=error):
        read(ARCHIVE, body, RAR)


def test_number_of_listed_members_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_MEMBERS", 5)
    monkeypatch.setattr(archive, "SHOWN_MEMBERS", 3)
    document = Document(rar(*map(str, range(50))), RAR, None, "http://site.example/")
    details = call(ARCHIVE, document).details
    assert (details["members"], details["names"], details["cut"]) == (5, ["0", "1", "2"], True)
