"""PDF files, written by hand so that each test shows their whole content."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.documents import pdf, pdf_of
from webcrawl.documents.mime.facts import Facts
from webcrawl.errors import UnreadableDocument

Read = Callable[..., Facts]
READER, TYPE = "webcrawl.documents.mime.pdf:read", "application/pdf"
PAGE = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>"


def test_text_metadata_and_language_are_read(read: Read) -> None:
    info = (
        "/Title (The title) /Author (A. Author) /Subject (What it is of) /Keywords (one, two) /Creator (pen)"
        " /Producer (paper) /CreationDate (D:20261121101500+01'00') /ModDate (D:20261122)"
    )
    facts = read(READER, pdf("Some words", pages=3, info=info), TYPE)
    assert (facts.title, facts.author, facts.description) == ("The title", "A. Author", "What it is of")
    assert (facts.language, facts.text) == ("en", "Some words Some words Some words")
    assert facts.published == datetime(2026, 11, 21, 9, 15, tzinfo=UTC)
    assert facts.modified == datetime(2026, 11, 22, tzinfo=UTC)
    assert facts.details == {
        "pages": 3,
        "keywords": "one, two",
        "creator": "pen",
        "producer": "paper",
        "version": 17,
    }


def test_links_of_annotations_and_outline_are_found(read: Read) -> None:
    body = pdf(
        links=["http://a.example/x#part", "/rooted", "mailto:me@a.example", "javascript:x", "http://["],
        outline=["http://b.example/marked", "deeper/page"],
    )
    facts = read(READER, body, TYPE, url="http://site.example/folder/file.pdf")
    assert [link.url for link in facts.links] == [
        "http://a.example/x#part",
        "http://site.example/rooted",
        "http://b.example/marked",
        "http://site.example/folder/deeper/page",
    ]
    assert not any(link.modified for link in facts.links)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"%PDF-1.7\nnothing", "is broken"),
        (pdf()[:400], "is broken"),
        (b"", "is broken"),
    ],
    ids=["nothing", "cut", "empty"],
)
def test_broken_pdf_is_refused(body: bytes, error: str, read: Read) -> None:
    with pytest.raises(UnreadableDocument, match=error):
        read(READER, body, TYPE)


def test_encrypted_pdf_is_refused(read: Read) -> None:
    objects = {
        1: "<< /Type /Catalog /Pages 2 0 R >>",
        2: "<< /Type /Pages /Kids [10 0 R] /Count 1 >>",
        6: "<< >>",
        7: f"<< /Filter /Standard /V 1 /R 2 /O <{'41' * 32}> /U <{'42' * 32}> /P -4 >>",
        10: PAGE,
    }
    with pytest.raises(UnreadableDocument, match="protected by a password"):
        read(READER, pdf_of(objects, f"/Encrypt 7 0 R /ID [<{'43' * 16}> <{'43' * 16}>]"), TYPE)


def test_cyclic_references_end(read: Read) -> None:
    """A page tree, bookmarks and a form that contain themselves."""
    mark = "<< /Title (mark) /Parent 5 0 R /Next 11 0 R /First 11 0 R /A << /S /URI /URI (http://a.example/) >> >>"
    form = (
        "<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 12 0 R >> >> /Length 5 >>"
        "\nstream\n/X Do\nendstream"
    )
    page = PAGE.replace(">>", "/Contents 4 0 R /Resources << /XObject << /X 12 0 R >> >> >>")
    objects = {
        1: "<< /Type /Catalog /Pages 2 0 R /Outlines 5 0 R >>",
        2: "<< /Type /Pages /Kids [10 0 R 2 0 R] /Count 2000000000 /Parent 2 0 R >>",
        4: "<< /Length 5 >>\nstream\n/X Do\nendstream",
        5: "<< /Type /Outlines /First 11 0 R /Last 11 0 R >>",
        6: "<< /Title 6 0 R >>",
        10: page,
        11: mark,
        12: form,
    }
    try:
        facts = read(READER, pdf_of(objects), TYPE)
    except UnreadableDocument as error:
        assert "broken" in str(error)
    else:
        assert len(facts.links) <= 1


def test_pdf_dates_are_parsed() -> None:
    from webcrawl.documents.mime.pdf import pdf_date

    assert pdf_date("D:2026") == datetime(2026, 1, 1, tzinfo=UTC)
    assert pdf_date("20261121101500Z") == datetime(2026, 11, 21, 10, 15, tzinfo=UTC)
    zone = timezone(-timedelta(hours=3, minutes=30))
    assert pdf_date("D:20261121101559-03'30'") == datetime(2026, 11, 21, 10, 15, 59, tzinfo=zone)
    assert pdf_date(" D:20261121101559-03'30' ") == datetime(2026, 11, 21, 10, 15, 59, tzinfo=zone)
    # ISO dates, against the standard
    assert pdf_date("2024-01-02") == datetime(2024, 1, 2, tzinfo=UTC)
    assert pdf_date("2024-01-02T03:04:05+01:00") == datetime(2024, 1, 2, 2, 4, 5, tzinfo=UTC)
    for text in (
        "",
        "D:",
        "2024-01",
        "D:2024+01",
        "yesterday",
        "D:20261341",
        "D:0000",
        "D:20261121101500+99'99'",
    ):
        assert pdf_date(text) is None, text
