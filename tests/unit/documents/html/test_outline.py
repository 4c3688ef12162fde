"""An outline from another process equals the one that this process would make."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgpack
import pytest
from hypothesis import given, strategies as st
from scrapy.settings import Settings

from tests.cases import cases
from webcrawl.crawler.session import Session
from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import describe
from webcrawl.documents.html.link_texts import MAX_LINK_TEXT, link_texts
from webcrawl.documents.html.links import collect, frame_links
from webcrawl.documents.html.outline import MAX_LINKS_LENGTH, make_outline, pack, unpack
from webcrawl.documents.mime.facts import MAX_TEXT, pack_error
from webcrawl.documents.page import Page
from webcrawl.documents.simhash import simhash64
from webcrawl.errors import UnreadableDocument
from webcrawl.pipelines.html import HtmlPipeline
from webcrawl.urls.canonical import Base

URL = "http://site.example/folder/page"
PIECES = [
    "<title>A title</title>",
    "<base href='/other/'>",
    "<meta name=robots content='noindex, nofollow'>",
    "<meta property=og:published_time content=2024-02-29T12:00:00+02:00>",
    "<meta name=author content='Ada \N{SNOWMAN}'>",
    '<script type=application/ld+json>{"@type": "Article", "headline": "\\ud800 x"}</script>',
    "<link rel=canonical href=/canonical>",
    "<a href=one>1</a>",
    "<a href='http://else.example/?q=\N{LATIN SMALL LETTER E WITH ACUTE}' rel=nofollow>2</a>",
    "<a href='http://[broken'>3</a>",
    "<a href>4</a>",
    "<frame src=frame.html>",
    "<main>" + "words that are many enough to be told from others " * 5 + "</main>",
    "<p>" + "\N{CJK UNIFIED IDEOGRAPH-4E00} some other words beside the main part of all " * 3,
    "\0",
    "\ufffd",
    "\xff",
    "<!--",
]
pages = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
charsets = st.sampled_from(["utf-8", "windows-1252", None])


def document(markup: str, charset: str | None = "utf-8") -> Document:
    return Document(markup.encode("utf-8"), "text/html", charset, URL)


@given(pages, charsets, st.booleans(), st.booleans(), st.booleans())
def test_outline_equals_local_results_and_survives_packing(
    markup: str, charset: str | None, facts: bool, simhash: bool, texts: bool
) -> None:
    made = make_outline(document(markup, charset), facts=facts, simhash=simhash, texts=texts)
    received = unpack(pack(made), document(markup, charset))
    assert received == made
    local = document(markup, charset)
    assert received.metas == local.metas
    links = collect(local.elements).joined(URL)
    assert received.links == replace(links, texts=link_texts(local.html, Base(links.base)) if texts else {})
    assert received.frames == frame_links(local)
    if not facts:
        assert (received.facts, received.text, received.simhash) == (None, None, None)
        return
    found = describe(local)
    assert received.facts == found
    assert received.text == (None if found.main_text else found.text)
    assert received.simhash == (simhash64(found.main_text or found.text) if simhash else None)


def packed_with(place: tuple[int, ...], value: object) -> bytes:
    markup = PIECES[0] + PIECES[2] + PIECES[7] + PIECES[11] + PIECES[12]
    plain: Any = msgpack.unpackb(pack(make_outline(document(markup), facts=True, simhash=True)), timestamp=3)
    within = plain
    for step in place[:-1]:
        within = within[step]
    within[place[-1]] = value
    return bytes(msgpack.packb(plain, datetime=True))


@cases(
    ("place", "value"),
    [
        ((0,), None),
        ((0, 0), ["name"]),
        ((0, 0), {"name": 1}),
        ((1,), []),
        ((1, 0), "http://site.example/"),
        ((1, 0), [b"http://site.example/"]),
        ((1, 0), [{}]),
        ((1, 1), "1"),
        ((1, 2), 1),
        ((1, 3), None),
        ((1, 4), True),
        ((1, 5), None),
        ((1, 5), {"http://site.example/": 1}),
        ((1, 5), {b"http://site.example/": "text"}),
        ((1, 5), {"http://site.example/": "x" * (MAX_LINK_TEXT + 1)}),
        ((2,), [1]),
        ((3,), [1]),
        ((3, 0), b"bytes"),
        ((3, 9), "yesterday"),
        ((3, 10), [0.5, 2.0]),
        ((4,), 5),
        ((5,), -1),
        ((5,), 2**64 - 1.0),
    ],
)
def test_invalid_outline_is_rejected(place: tuple[int, ...], value: object) -> None:
    with pytest.raises(ValueError):
        unpack(packed_with(place, value), document(""))


def test_links_beyond_the_total_length_are_dropped() -> None:
    markup = f"<base href='http://a.test/{'x' * 4_000}/'>" + "".join(f"<a href={n}>" for n in range(9_000))
    links = make_outline(document(markup), facts=False, simhash=False).links.links
    assert 1_000 < len(links) < 9_000
    assert sum(map(len, links)) <= MAX_LINKS_LENGTH
    assert [link.rpartition("/")[2] for link in links] == [str(n) for n in range(len(links))]


def test_addresses_in_the_text_are_links_on_request() -> None:
    markup = "<a href=/1>1</a><p>See www.b.test/2 or http://site.example/1"
    made = make_outline(document(markup), facts=False, simhash=False, text_links=True)
    assert make_outline(document(markup), facts=False, simhash=False).links.links == ["http://site.example/1"]
    assert made.links.links == ["http://site.example/1", "http://www.b.test/2"]
    assert unpack(pack(made), document(markup)) == made
    many = document("".join(f"<p>http://a.test/{'x' * 4_000}{n}" for n in range(3_000)))
    links = make_outline(many, facts=False, simhash=False, text_links=True).links.links
    assert 1_000 < len(links) < 3_000 and sum(map(len, links)) <= MAX_LINKS_LENGTH


async def test_page_with_an_outline_is_not_parsed_for_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    local = document("<title>shell</title><script>run()</script>")
    item = Page(url=URL, host="http://site.example", fetched_at=datetime.now(UTC), mime_type="text/html")
    item.document, item.reading.outline = local, make_outline(local, facts=True, simhash=True)
    monkeypatch.setattr(Document, "html", property(lambda _: pytest.fail("it is parsed")))
    HtmlPipeline(Session(Settings(), "broad")).process_item(item)
    assert (item.title, item.text, item.main_text, item.reading.text_hash) == ("shell", "", None, None)


def test_changing_a_text_clears_its_hash() -> None:
    item = Page(url=URL, host="http://site.example", fetched_at=datetime.now(UTC))
    for name in ("text", "main_text"):
        item.reading.text_hash = 7
        setattr(item, name, "another")
        assert item.reading.text_hash is None


def test_received_details_are_bounded() -> None:
    deep: Any = []
    for _ in range(100):
        deep = [deep, "x"]
    outline = unpack(packed_with((3, 11), {"deep": deep, "bytes": b"x", "long": "y" * 100_000}), document(""))
    assert outline.facts is not None
    assert len(str(outline.facts.details)) < 20_000
    assert "bytes" not in outline.facts.details


@given(st.binary(max_size=30))
def test_random_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises((ValueError, UnreadableDocument)):
        unpack(data, document(""))


def test_packed_error_is_raised() -> None:
    with pytest.raises(UnreadableDocument, match="KeyError"):
        unpack(pack_error("KeyError: 'x\ud800'"), document(""))


def test_a_long_main_text_is_cut() -> None:
    document = Document(f"<p>{'words ' * 400_000}".encode(), "text/html", "utf-8", "http://a.example/")
    outline = unpack(pack(make_outline(document, facts=True, simhash=True)), document)
    assert outline.facts is not None and len(outline.facts.main_text or "") == MAX_TEXT
