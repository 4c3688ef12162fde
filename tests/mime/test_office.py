"""Office documents of three generations."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO

import pytest

from tests.documents import docx, entity_bomb, odt, ole, ooxml, zip_bomb, zipped
from webcrawl.errors import UnreadableDocument
from webcrawl.mime.facts import Facts

Read = Callable[..., Facts]
READER, TYPE = "webcrawl.mime.office:read", "application/zip"


def test_word(read: Read) -> None:
    facts = read(READER, docx("One &amp; only.", "Two"), TYPE)
    assert (facts.title, facts.author, facts.language) == ("A title", "A. Author", "en")
    assert (facts.text, facts.links) == ("One & only. Two", [("http://site.example/linked", None)])
    assert facts.published == datetime(2026, 11, 20, 8, tzinfo=UTC)
    assert facts.modified == datetime(2026, 11, 21, 8, tzinfo=UTC)
    assert facts.details == {"pages": 3, "application": "Pen"}


def test_excel_and_powerpoint(read: Read) -> None:
    excel = ooxml(
        xl__workbook='<workbook><sheets><sheet name="First"/><sheet name="Second"/></sheets></workbook>',
        xl__sharedStrings="<sst><si><t>one</t></si><si><t>two</t></si></sst>",
    )
    facts = read(READER, excel, TYPE)
    assert (facts.text, facts.details["sheets"]) == ("one two", ["First", "Second"])
    slides = {f"ppt__slides__slide{number}": f"<s><p><t>slide {number}</t></p></s>" for number in (10, 2, 1)}
    assert read(READER, ooxml(**slides), TYPE).text == "slide 1 slide 2 slide 10"


def test_open_document(read: Read) -> None:
    facts = read(READER, odt("One", "Two"), TYPE)
    assert (facts.title, facts.author, facts.text) == ("A title", "A. Author", "One Two x")
    assert facts.links == [("http://site.example/linked", None)]
    assert facts.details == {"pages": 3, "words": 7}


def test_the_older_binary_ones_say_who_made_them(read: Read) -> None:
    facts = read(READER, ole("Grüße", "A. Author"), "application/msword")
    assert (facts.title, facts.author, facts.details) == ("Grüße", "A. Author", {"pages": 12})


def locked() -> bytes:
    """A zip file whose members claim to be encrypted."""
    body = bytearray(docx("secret"))
    with zipfile.ZipFile(BytesIO(bytes(body))) as archive:
        places = [info.header_offset for info in archive.infolist()]
    for place in places:
        body[place + 6] |= 1
    start = 0
    while (start := body.find(b"PK\x01\x02", start)) >= 0:
        body[start + 8] |= 1
        start += 4
    return bytes(body)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (lambda: b"", "is broken"),
        (lambda: docx("x")[:300], "is broken"),
        (lambda: b"a text that is called .doc", "no office document"),
        (lambda: zipped({"a.txt": "x"}), "of no office document"),
        (lambda: ole()[:1_000], "is broken"),
        (lambda: locked(), "is protected by a password"),
        (lambda: zip_bomb("word/document.xml", 70), "larger than 67,108,864 bytes when unpacked"),
        (lambda: ooxml(word__document=entity_bomb("a").decode()), "is broken"),
        (lambda: ooxml(word__document="<a>" * 100_000), "is broken"),
        (lambda: zipped({f"{number}": b"" for number in range(10_001)}), "has 10,001 members"),
    ],
    ids=["empty", "cut", "text", "other zip", "cut ole", "locked", "bomb", "entities", "depth", "members"],
)
def test_what_is_broken_or_a_bomb_is_said(body: Callable[[], bytes], error: str, read: Read) -> None:
    with pytest.raises(UnreadableDocument, match=error):
        read(READER, body(), TYPE)
