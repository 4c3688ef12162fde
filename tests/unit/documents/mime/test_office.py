"""Office documents: Office Open XML, OpenDocument and the older binary formats."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO

import pytest

from tests.cases import cases
from tests.documents import docx, entity_bomb, odt, ole, ooxml, zip_bomb, zipped
from webcrawl.documents.mime.facts import Facts, Link
from webcrawl.documents.mime.office import MAX_BYTES
from webcrawl.errors import UnreadableDocument

Read = Callable[..., Facts]
READER, TYPE = "webcrawl.documents.mime.office:read", "application/zip"


def test_word_document_is_read(read: Read) -> None:
    facts = read(READER, docx("One &amp; only.", "Two"), TYPE)
    assert (facts.title, facts.author, facts.language) == ("A title", "A. Author", "en")
    assert (facts.text, facts.links) == ("One & only. Two", [Link("http://site.example/linked", None)])
    assert facts.published == datetime(2026, 11, 20, 8, tzinfo=UTC)
    assert facts.modified == datetime(2026, 11, 21, 8, tzinfo=UTC)
    assert facts.details == {"pages": 3, "application": "Pen"}


def test_excel_and_powerpoint_documents_are_read(read: Read) -> None:
    excel = ooxml(
        xl__workbook='<workbook><sheets><sheet name="First"/><sheet name="Second"/></sheets></workbook>',
        xl__sharedStrings="<sst><si><t>one</t></si><si><t>two</t></si></sst>",
    )
    facts = read(READER, excel, TYPE)
    assert (facts.text, facts.details["sheets"]) == ("one two", ["First", "Second"])
    slides = {f"ppt__slides__slide{number}": f"<s><p><t>slide {number}</t></p></s>" for number in (10, 2, 1)}
    assert read(READER, ooxml(**slides), TYPE).text == "slide 1 slide 2 slide 10"


def test_open_document_is_read(read: Read) -> None:
    facts = read(READER, odt("One", "Two"), TYPE)
    assert (facts.title, facts.author, facts.text) == ("A title", "A. Author", "One Two x")
    assert facts.links == [Link("http://site.example/linked", None)]
    assert facts.details == {"pages": 3, "words": 7}


WORD = 'xmlns:w="http://w/" xmlns:mc="http://mc/"'


def word(*runs: str) -> str:
    paragraphs = "".join(f"<w:p>{run}</w:p>" for run in runs)
    return f"<w:document {WORD}><w:body>{paragraphs}</w:body></w:document>"


@cases(
    ("run", "text"),
    [
        (
            "<w:t>one</w:t><w:br/><w:t>two</w:t><w:tab/><w:t>three</w:t><w:cr/><w:t>four</w:t>",
            "one two three four",
        ),
        ("<w:t>co</w:t><w:noBreakHyphen/><w:t>op</w:t>", "co-op"),
        (
            "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:ins><w:r><w:t>here</w:t></w:r></w:ins>",
            "here",
        ),
        ("<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom><w:t>kept</w:t>", "kept"),
        (
            "<mc:AlternateContent><mc:Choice><w:t>box</w:t></mc:Choice><mc:Choice><w:t>box</w:t></mc:Choice>"
            "<mc:Fallback><w:t>box</w:t></mc:Fallback></mc:AlternateContent><w:t> and more</w:t>",
            "box and more",
        ),
        ("<w:instrText> PAGE </w:instrText><w:t>3</w:t>", "3"),
    ],
    ids=["breaks", "hyphen", "deleted", "moved", "versions", "code"],
)
def test_text_of_a_word_document_is_what_is_displayed(run: str, text: str, read: Read) -> None:
    assert read(READER, ooxml(word__document=word(run)), TYPE).text == text


def test_hyperlink_fields_are_found(read: Read) -> None:
    def field(*codes: str) -> str:
        inner = "".join(f"<w:r><w:instrText>{code}</w:instrText></w:r>" for code in codes)
        return f'<w:fldChar w:fldCharType="begin"/>{inner}<w:fldChar w:fldCharType="separate"/><w:t>x</w:t>'

    body = word(
        field(' HYPERLINK "http://site.exa', 'mple/cut" \\o "tip" '),
        field(" HYPERLINK http://site.example/bare "),
        field(' HYPERLINK \\l "bookmark" '),
        field(" PAGE "),
        """<w:fldSimple w:instr=' HYPERLINK "/simple" '><w:t>y</w:t></w:fldSimple>""",
    )
    facts = read(READER, ooxml(word__document=body), TYPE)
    assert [link.url for link in facts.links] == [
        f"http://site.example/{path}" for path in ("linked", "cut", "bare", "simple")
    ]
    assert facts.text == "x x x x y"


@pytest.mark.parametrize("target", ["word/document2.xml", "/other/main.xml", "./a/../word/b.xml"])
def test_main_part_is_found_by_its_relationship(target: str, read: Read) -> None:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    relations = f'<Relationships><Relationship Id="a" Type="{kind}" Target="{target}"/></Relationships>'
    name = {"./a/../word/b.xml": "word/b.xml"}.get(target, target.lstrip("/"))
    members = {"[Content_Types].xml": "<Types/>", "_rels/.rels": relations, name: word("<w:t>x</w:t>")}
    assert read(READER, zipped(members), TYPE).text == "x"


def test_inline_strings_are_read_without_a_shared_table(read: Read) -> None:
    cells = '<c t="inlineStr"><is><t>one</t></is></c><c><f>A1</f><v>42</v></c><c t="inlineStr"><is><t>two</t></is></c>'
    parts = {
        "xl__workbook": '<workbook><sheets><sheet name="S"/></sheets><definedName>A1</definedName></workbook>',
        "xl__worksheets__sheet10": "<worksheet><c><v>1</v></c></worksheet>",
        "xl__worksheets__sheet2": f"<worksheet><row>{cells}</row></worksheet>",
    }
    assert read(READER, ooxml(**parts), TYPE).text == "one two"


def test_inline_strings_are_read_beside_a_shared_table(read: Read) -> None:
    cell = '<c t="inlineStr"><is><t>inline</t></is></c><c t="s"><v>0</v></c>'
    parts = {
        "xl__workbook": "<workbook/>",
        "xl__sharedStrings": "<sst/>",
        "xl__worksheets__sheet1": f"<worksheet><row>{cell}</row></worksheet>",
    }
    assert read(READER, ooxml(**parts), TYPE).text == "inline"
    parts["xl__sharedStrings"] = "<sst><si><t>shared</t></si></sst>"
    assert read(READER, ooxml(**parts), TYPE).text == "shared inline"


TYPES: dict[str, str | bytes] = {"[Content_Types].xml": "<Types/>"}
SLIDES = {f"ppt__slides__slide{number}": f"<s><p><t>slide {number}</t></p></s>" for number in (1, 3)}


@cases(
    ("body", "text"),
    [
        (lambda: ooxml(word__document=word("<w:t>x</w:t>"), docProps__core=""), "x"),
        (lambda: ooxml(word__document=word("<w:t>x</w:t>"), docProps__app="<a>&nbsp;</b>"), "x"),
        (lambda: ooxml(word__document=word("<w:t>x</w:t>"), docProps__app=entity_bomb("a").decode()), "x"),
        (lambda: zipped(TYPES | {"word/document.xml": word("<w:t>x</w:t>"), "word/_rels/x.rels": ""}), "x"),
        (lambda: ooxml(ppt__slides__slide2="<s>two&bad;<", **SLIDES), "slide 1 slide 3"),
        (lambda: ooxml(ppt__presentation="<", **SLIDES), "slide 1 slide 3"),
        (lambda: zipped({"content.xml": "<o><p>x</p></o>", "meta.xml": ""}), "x"),
    ],
    ids=["no core", "wrong app", "entities", "relations", "slide", "main part", "meta"],
)
def test_what_a_broken_part_leaves_is_kept_and_marked(
    body: Callable[[], bytes], text: str, read: Read
) -> None:
    facts = read(READER, body(), TYPE)
    assert facts.text == text
    assert facts.details["broken"] is True


def test_a_sheet_that_is_too_large_leaves_the_strings(read: Read) -> None:
    parts = TYPES | {
        "xl/workbook.xml": "<workbook/>",
        "xl/sharedStrings.xml": "<sst><si><t>shared</t></si></sst>",
        "xl/worksheets/sheet1.xml": " " * (MAX_BYTES + 1),
    }
    facts = read(READER, zipped(parts), TYPE)
    assert facts.text == "shared" and facts.details["cut"] is True and "broken" not in facts.details


def test_open_document_text_excludes_deletions_and_keeps_spaces(read: Read) -> None:
    deleted = "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
    body = odt(f"{deleted}one<text:line-break/>two<text:tab/>three<text:s/>four<text:a>no address</text:a>")
    facts = read(READER, body, TYPE)
    assert facts.text == "one two three fourno address x"
    assert facts.links == [Link("http://site.example/linked", None)]


def test_metadata_of_a_binary_document_is_read(read: Read) -> None:
    facts = read(READER, ole("Grüße", "A. Author"), "application/msword")
    assert (facts.title, facts.author, facts.details) == ("Grüße", "A. Author", {"pages": 12})


def locked() -> bytes:
    """A zip file with all members marked as encrypted."""
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


@cases(
    ("body", "error"),
    [
        (lambda: b"", "is broken"),
        (lambda: docx("x")[:300], "is broken"),
        (lambda: b"a text that is called .doc", "not an office document"),
        (lambda: zipped({"a.txt": "x"}), "but not an office document"),
        (lambda: ole()[:1_000], "is broken"),
        (lambda: locked(), "is protected by a password"),
        (lambda: zip_bomb("word/document.xml", 70), "larger than 67,108,864 bytes when unpacked"),
        (lambda: ooxml(word__document=entity_bomb("a").decode()), "is broken"),
        (lambda: ooxml(word__document="<a>" * 100_000), "is broken"),
        (lambda: ooxml(ppt__presentation="<", ppt__slides__slide1="<"), "is broken"),
        (lambda: zipped({f"{number}": b"" for number in range(10_001)}), "has 10,001 members"),
    ],
    ids=[
        "empty",
        "cut",
        "text",
        "other zip",
        "cut ole",
        "locked",
        "bomb",
        "entities",
        "depth",
        "no part",
        "members",
    ],
)
def test_broken_document_or_bomb_is_refused(body: Callable[[], bytes], error: str, read: Read) -> None:
    with pytest.raises(UnreadableDocument, match=error):
        read(READER, body(), TYPE)
