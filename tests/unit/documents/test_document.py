"""Documents, their media types, and the page item that holds them."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import time
from datetime import UTC, datetime
from unittest import mock

import pytest
from hypothesis import example, given, strategies as st
from itemadapter import ItemAdapter
from scrapy.exporters import JsonLinesItemExporter
from selectolax.lexbor import LexborHTMLParser

from tests.cases import cases
from webcrawl.documents import markup_bounds
from webcrawl.documents.document import MOST_TREES, Document
from webcrawl.documents.html.facts import describe
from webcrawl.documents.link_elements import MAX_METAS
from webcrawl.documents.markup_bounds import TRUSTED_TAGS, flattened, may_exceed
from webcrawl.documents.mime.sniff import MediaType, sniff
from webcrawl.documents.page import ROW_FIELDS, Page

URL = "https://example.org/"
NOW = datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)


def document(body: bytes, charset: str | None = None) -> Document:
    return Document(body, "text/html", charset, URL)


def test_streams_are_rewound_and_independent() -> None:
    it = document(b"abcdef")
    first, second = it.open(), it.open()
    assert first.read(3) == b"abc"
    assert second.read() == b"abcdef"
    assert first.read() == b"def"
    assert len(it) == 6
    assert it.body == b"abcdef"


def test_empty_document_is_true_and_has_a_tree() -> None:
    assert document(b"")
    assert len(document(b"")) == 0
    assert document(b"").text == ""
    assert document(b"").html.body is not None


@cases(
    ("body", "charset", "text"),
    [
        ("grüße".encode(), "utf-8", "grüße"),
        ("grüße".encode("cp1252"), "cp1252", "grüße"),
        ("grüße".encode(), None, "grüße"),
        ("grüße".encode("cp1252"), None, "grüße"),
        (b"\xef\xbb\xbfgr\xc3\xbc", "cp1252", "grü"),
        ("grüße".encode("utf-16"), "utf-8", "grüße"),
        (b"a\xffb", "utf-8", "a\ufffdb"),
        (b"abc", "no-such-codec", "abc"),
        (b"abc", "base64", "abc"),
        (b"abc", "idna", "abc"),
        (b"a\0b", "utf-8", "a\0b"),
    ],
)
def test_text_is_decoded_by_charset(body: bytes, charset: str | None, text: str) -> None:
    assert document(body, charset).text == text


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
@example(b"\xc2\0\x80")
def test_utf8_is_parsed_as_it_is_decoded(body: bytes) -> None:
    it = document(b"<p>" + body, "utf-8")
    assert it.html.html == LexborHTMLParser(it.text).html


@given(
    st.binary(), st.sampled_from([None, "utf-8", "cp1252", "utf-16-le", "gb18030", "iso2022_jp", "hex", "x"])
)
def test_text_and_tree_never_raise(body: bytes, charset: str | None) -> None:
    it = document(body, charset)
    assert it.text is it.text
    assert it.html is it.html


def test_flattened_keeps_shallow_markup() -> None:
    markup = "<ul>" + "<li><p>x" * 10_000 + "</ul><div><b>y</b></div>" * 10_000
    assert flattened(markup, 10) == markup
    assert flattened("<div><div title='1'><div title='2'>x</div></div></div>", 2) == (
        "<div><div title='1'>x</div></div></div>"
    )


@pytest.mark.parametrize(
    "tag",
    ["<div>", "<font color=red>", "<a href=x><div>", "<b><i>", "<ul><li>", "<x-y>", "<div></x>", "<div></p>"],
)
def test_hostile_nesting_is_bounded_and_loses_no_text(tag: str) -> None:
    body = (f"<p>first{tag * 100_000}last<a href=/end>").encode()
    begun = time.process_time()
    tree = document(body).html
    assert time.process_time() - begun < 2  # 12 to 35 seconds without the bound
    assert tree.body is not None
    assert tree.body.text().startswith("first")
    assert tree.body.text().endswith("last")
    assert tree.css("a[href='/end']")


def test_ordinary_page_with_many_tags_is_not_flattened() -> None:
    rows = TRUSTED_TAGS
    tree = document(b"<table>" + b"<tr><td><div>1</div><td><b>2</b>" * rows).html
    assert len(tree.css("table > tbody > tr > td > div")) == rows


TAGS = [
    "<div>",
    "</div>",
    "<DIV x=1>",
    "</x>",
    "<x>",
    "<p>",
    "</p>",
    "<br>",
    "text",
    "<fieldset>",
    "</fieldset>",
    "</",
    "<",
]
LEFT_OUT = [
    "<span a>x</span>",
    "<span a>",
    "</span>",
    "<SPAN>",
    "<spanner>x</spanner>",
    "<a x>",
    "</td>",
    "<!-- ",
]
"""Markup that is not counted where it is complete, and markup like it."""


@given(st.lists(st.sampled_from(TAGS), max_size=200), st.integers(0, 20))
def test_markup_that_may_not_exceed_the_depth_is_unchanged(tags: list[str], depth: int) -> None:
    markup = "".join(tags)
    if not may_exceed(markup.encode(), depth):
        assert flattened(markup, depth) == markup


@given(st.lists(st.sampled_from([*TAGS, *LEFT_OUT]), max_size=200), st.integers(0, 5), st.integers(1, 99))
def test_markup_is_counted_in_any_parts(tags: list[str], depth: int, size: int) -> None:
    markup = "".join(tags)
    with mock.patch.object(markup_bounds, "_PART_BYTES", size):
        assert may_exceed(markup.encode(), depth) or flattened(markup, depth) == markup


@given(st.lists(st.sampled_from(TAGS[:8]), max_size=200), st.integers(0, 20))
def test_may_exceed_is_exact_for_complete_tags(tags: list[str], depth: int) -> None:
    markup = "".join(tags)
    assert may_exceed(markup.encode(), depth) == (flattened(markup, depth) != markup)


def test_few_elements_with_many_end_tags_are_bounded() -> None:
    begun = time.process_time()
    assert document(b"<div>" * 8_000 + b"</x>" * 100_000).html.css("div")
    assert time.process_time() - begun < 2


HTML = b"<!DOCTYPE html><title>x</title>"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


@cases(
    ("header", "body", "path", "mime_type"),
    [
        ("text/html", HTML, "", "text/html"),
        ("Text/HTML; charset=utf-8", HTML, "", "text/html"),
        ("text/html, text/html", HTML, "", "text/html"),
        (None, HTML, "x.pdf", "text/html"),
        (None, b"\n\n <!-- c --><p>", "", "text/html"),
        ("nonsense", HTML, "", "text/html"),
        ("*/*", HTML, "", "text/html"),
        (None, b"<bogus>", "", "text/plain"),
        (None, b"", "", "text/plain"),
        (None, b"body { color: red }", "style.css", "text/css"),
        (None, b"words", "paper.pdf", "text/plain"),
        (None, b"\0\1\2", "", "application/octet-stream"),
        (None, b"\0\1\2", "a.jpg", "image/jpeg"),
        (None, b"%PDF-1.7", "", "application/pdf"),
        ("text/html", b"%PDF-1.7", "", "application/pdf"),
        ("application/octet-stream", b"%PDF-1.7", "", "application/pdf"),
        ("application/octet-stream", b"words", "notes.txt", "text/plain"),
        ("application/octet-stream", b"words", "", "application/octet-stream"),
        ("image/jpeg", PNG, "", "image/png"),
        ("image/svg+xml", b"<svg/>", "", "image/svg+xml"),
        ("text/plain", b"ab\0cd", "", "application/octet-stream"),
        ("text/plain", "grüße".encode("utf-16"), "", "text/plain"),
        ("text/plain", HTML, "", "text/plain"),
        ("application/pdf", HTML, "", "application/pdf"),
        ("application/json", b"{}", "", "application/json"),
        (
            "application/xml",
            b'<?xml version="1.0"?><!-- a > b --><rss version="2.0">',
            "",
            "application/rss+xml",
        ),
        (
            "text/html",
            b'<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom">',
            "",
            "application/atom+xml",
        ),
        ("text/xml", b'<!DOCTYPE html PUBLIC "-//W3C" "x"><html xmlns="y">', "", "application/xhtml+xml"),
        ("text/xml", b"<a:urlset/>", "", "application/xml"),
        ("text/xml", b"<other/>", "", "text/xml"),
        (None, b"<?xml version='1.0'?><html>", "", "application/xhtml+xml"),
        ("application/zip", b"PK\x03\x04", "a.docx", "application/zip"),
        (None, b"PK\x03\x04", "a.epub", "application/epub+zip"),
        (None, b"PK\x03\x04", "", "application/zip"),
    ],
)
def test_mime_type_is_sniffed(header: str | None, body: bytes, path: str, mime_type: str) -> None:
    assert sniff(header, body, URL + path).mime_type == mime_type


@cases(
    ("header", "body", "charset"),
    [
        ("text/html; charset=ISO-8859-1", b"<p>", "cp1252"),
        ("text/html; charset=utf-8", b"\xff\xfea\0", "utf-16-le"),
        ("text/html; charset=utf-16", b"a\0", "utf-16-le"),
        ("text/html; charset=base64", b"<meta charset=koi8-r>", "koi8-r"),
        ("text/html", b'<meta http-equiv=content-type content="text/html; charset=shift_jis">', "cp932"),
        ("text/html", b"<meta charset=utf-16>", "utf-8"),
        ("text/html", b"<!-- <meta charset=koi8-r> --><p>", "utf-8"),
        ("text/xml", b"<?xml version='1.0' encoding='windows-1251'?><x/>", "cp1251"),
        ("text/plain", b"<meta charset=koi8-r>", "utf-8"),
        ("text/plain", "grüße".encode()[:-3], "utf-8"),
        ("text/plain", "grüße".encode("latin-1"), "cp1252"),
        ("image/png", PNG, None),
    ],
)
def test_charset_is_sniffed(header: str, body: bytes, charset: str | None) -> None:
    assert sniff(header, body, URL).charset == charset


@given(st.none() | st.text(), st.binary(), st.text())
def test_sniffing_never_raises_and_its_charset_decodes(header: str | None, body: bytes, url: str) -> None:
    found = sniff(header, body, url)
    assert isinstance(found, MediaType)
    assert found.charset is None or isinstance(body.decode(found.charset, "replace"), str)


def page() -> Page:
    it = Page(url=URL, host="https://example.org", fetched_at=NOW, simhash=2**64 - 1, title="T")
    it.document = document(b"<p>")
    it.text = "text"
    it.reading.noindex = True
    return it


def test_new_page_carries_no_data() -> None:
    it = Page(url=URL, host="h", fetched_at=NOW)
    assert (it.document, it.archived.exchange, it.text, it.archived.duplicate_fetched_at) == (
        None,
        None,
        None,
        None,
    )
    assert (it.reading.noindex, it.archived.noarchive) == (False, False)
    assert it.final_url == URL
    assert Page(url=URL, host="h", fetched_at=NOW, final_url="x").final_url == "x"
    with pytest.raises(AttributeError):
        it.unknown = 1  # type: ignore[attr-defined]


def test_row_and_item_fields_are_the_stored_fields() -> None:
    it = page()
    assert tuple(it.row()) == ROW_FIELDS == tuple(ItemAdapter(it).field_names())
    assert it.row() == dataclasses.asdict(it) == ItemAdapter(it).asdict()
    assert it.row()["simhash"] == 2**64 - 1
    assert not {"document", "exchange", "text", "duplicate_fetched_at", "noindex", "noarchive"} & set(
        ROW_FIELDS
    )


def test_feed_export_has_the_stored_fields() -> None:
    file = io.BytesIO()
    exporter = JsonLinesItemExporter(file)
    exporter.export_item(page())
    exported = json.loads(file.getvalue())
    assert set(exported) == set(ROW_FIELDS)
    assert exported["title"] == "T"


def test_release_does_not_affect_copies() -> None:
    it = page()
    twin = copy.copy(it)
    assert twin == it
    assert twin.document is it.document
    it.release()
    assert it.document is None
    assert not it.reading.noindex
    assert twin.text == "text"


def test_elements_with_links_are_listed_once_in_order() -> None:
    markup = (
        b"<base href=/b><meta content=m><meta name=x><a>no</a><a href=1 src=2 content=3>1</a><img src=i>"
        b"<svg><a href=2 /></svg><area href=3><map href=4></map><iframe src=5></iframe><iframe href=6></iframe>"
        b"<link href=7><script src=8></script><A HREF=9>9</A>"
    )
    found = Document(markup, "text/html", "utf-8", "http://a.test/").elements
    held = [(tag, attributes.get("href") or attributes.get("src")) for tag, attributes in found]
    assert held == [
        *(("base", "/b"), ("meta", None), ("a", "1"), ("a", "2"), ("area", "3")),
        *(("iframe", "5"), ("link", "7"), ("a", "9")),
    ]


def test_forgotten_tree_is_parsed_again_on_access() -> None:
    markup = '<meta name="a" content="b"><a href="/x">ä</a>'.encode()
    document = Document(markup, "text/html", "utf-8", "http://a.test/")
    tree, facts = document.html, describe(document)
    before = document.text, document.elements, document.metas
    document.forget()
    assert document.html is not tree and document.html.html == tree.html
    assert (document.text, document.elements, document.metas) == before
    assert before[2] == [{"name": "a", "content": "b"}]
    document.forget()
    assert facts.text == "ä"


def test_only_the_latest_documents_keep_their_trees() -> None:
    """Pages that wait for a slow store would hold 160 KB each, and more than twice their number of bytes."""
    documents = [Document(b"<p>%d" % number, "text/html", "utf-8", URL) for number in range(3 * MOST_TREES)]
    trees = [document.html for document in documents]
    kept = [document.html is tree for document, tree in zip(documents[::-1], trees[::-1], strict=True)]
    assert kept[:MOST_TREES] == [True] * MOST_TREES
    assert not any(kept[MOST_TREES:])
    assert [document.html.html for document in documents] == [tree.html for tree in trees]


def test_tree_taken_from_elsewhere_is_not_forgotten() -> None:
    document = Document(b"<p>a", "text/html", "utf-8", "http://a.test/")
    document.take((tree := LexborHTMLParser(b"<p>b"), True))
    document.forget()
    assert document.html is tree and document.simplified


def test_refused_document_has_an_empty_tree_and_its_whole_body() -> None:
    document = Document("<p>ü<a href=/x>".encode("latin-1"), "text/html", None, "http://a.example/")
    document.refused = "takes the parser 9 seconds"
    assert document.elements == [] and not document.simplified
    assert document.html.body is not None and document.html.body.text() == ""
    assert document.body == b"<p>\xfc<a href=/x>"


def test_a_page_has_at_most_so_many_metas_that_are_read() -> None:
    page = Document(
        b"<meta name=a content=b>" * 2_000 + b"<a href=/x>x</a>", "text/html", "utf-8", "http://h.test/"
    )
    assert len(page.metas) == MAX_METAS
    assert page.elements[-1] == ("a", {"href": "/x"})
    page.forget(only_elements=True)
    assert len(page.metas) == MAX_METAS


def test_a_page_that_is_stored_keeps_its_remarks_for_listeners() -> None:
    page = Page(url=URL, host="example.org", fetched_at=NOW)
    page.archived.remarks = ("head_only",)
    row = page.row()
    page.release()
    assert page.row() == row and row["details"] == {"remarks": ["head_only"]}
