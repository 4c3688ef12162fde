"""Queries of links are in the encoding of their page, in every reader of addresses; what Chromium asks was compared."""

from __future__ import annotations

from tests.cases import cases
from webcrawl.documents.document import Document
from webcrawl.documents.encodings import encode_page
from webcrawl.documents.html.facts import describe
from webcrawl.documents.html.link_rows import unpack_rows
from webcrawl.documents.html.links import collect, frame_links
from webcrawl.documents.html.outline import link_rows_of, make_outline, pack, unpack
from webcrawl.results.references import base_of, references
from webcrawl.results.rewriting import loaded, rewritten_page, rewritten_sheet

URL = "http://site.example/dir/page"
HOST = "http://site.example"
CODECS = {"no-such-codec": "ascii"}

# charset of the page, query as written, query as asked
QUERIES = [
    ("utf-8", "你é", "%E4%BD%A0%C3%A9"),
    ("utf-16-le", "你é", "%E4%BD%A0%C3%A9"),
    ("utf-16-be", "你é", "%E4%BD%A0%C3%A9"),
    ("gbk", "你€ก", "%C4%E3%80%26%233585%3B"),
    ("gb18030", "你€ก", "%C4%E3%A2%E3%812%CE9"),
    ("big5hkscs", "你€ก", "%A7A%A3%E1%26%233585%3B"),
    ("big5hkscs", "十㡵", "%A4Q%26%2314453%3B"),
    ("cp932", "表ソ①～纊¥", "%95%5C%83%5C%87@%81%60%FA%5C%5C"),
    ("euc_jp", "表①～纊é", "%C9%BD%AD%A1%A1%C1%F9%A1%26%23233%3B"),
    ("iso2022_jp", "①ｱé", "%1B$B-!%%22%1B(B%26%23233%3B"),
    ("iso2022_jp", "aあb", "a%1B$B$%22%1B(Bb"),
    ("cp949", "한글é", "%C7%D1%B1%DB%26%23233%3B"),
    ("cp1251", "Привет你", "%CF%F0%E8%E2%E5%F2%26%2320320%3B"),
    ("koi8-r", "Привет", "%F0%D2%C9%D7%C5%D4"),
    ("koi8-u", "ўї", "%AE%A7"),
    ("cp866", "Привет", "%8F%E0%A8%A2%A5%E2"),
    ("mac-cyrillic", "Ґ", "%A2"),
    ("cp1252", "é€Я", "%E9%80%26%231071%3B"),
    ("cp1250", "łó", "%B3%F3"),
    ("cp1253", "αβ", "%E1%E2"),
    ("cp1255", "שלום", "%F9%EC%E5%ED"),
    ("cp1256", "مرحبا", "%E3%D1%CD%C8%C7"),
    ("cp874", "ไทย", "%E4%B7%C2"),
    ("iso8859-2", "łó", "%B3%F3"),
    ("cp1252", "a=é&b=%zz%E4+|\\", "a=%E9&b=%zz%E4+%7C%5C"),
    ("cp1252", "é\t\n 'x'", "%E9%20%27x%27"),
    ("no-such-codec", "é", "%C3%A9"),
]


def document(markup: str, charset: str = "gbk", mime_type: str = "text/html") -> Document:
    return Document(markup.encode(CODECS.get(charset, charset)), mime_type, charset, URL)


@cases(("charset", "written", "asked"), QUERIES)
def test_a_query_is_in_the_encoding_of_its_page(charset: str, written: str, asked: str) -> None:
    # as references, because not all encodings have all characters
    query = "".join(letter if letter.isascii() else f"&#{ord(letter)};" for letter in written)
    page = Document(
        f'<a href="/&uuml;?{query}">'.encode(CODECS.get(charset, charset)), "text/html", charset, URL
    )
    assert collect(page.elements).joined(URL, encode=page.encode).links == [f"{HOST}/%C3%BC?{asked}"]


@cases("codec", sorted({codec for codec, _, _ in QUERIES} - {"no-such-codec"}))
def test_a_page_in_an_encoding_is_read_as_it_was(codec: str) -> None:
    written = "".join(query for _, query, _ in QUERIES) + "¥‾−\\~😀"
    text = f'<p title="{written.replace(chr(34), "")}">{written}</p>'
    encoded = encode_page(text, codec)
    assert (encoded is None) == codec.startswith("utf")
    if encoded is not None:
        page = Document(encoded, "text/html", codec, URL)
        read = page.html.css_first("p").html
        # an encoding of mails has no katakana of half width
        expected = text.replace("ｱ", "ア") if codec == "iso2022_jp" else text
        assert read == Document(expected.encode(), "text/html", "utf-8", URL).html.css_first("p").html


ASKED = "q=%C4%E3"
LINKS = {
    "a": "<a href='/x?q=你#你'>",
    "area": "<area href='/x?q=你'>",
    "absolute": "<a href='http://site.example/x?q=你'>",
    "without a scheme": "<a href='//site.example/x?q=你'>",
    "iframe": "<iframe src='/x?q=你'></iframe>",
    "refresh": "<meta http-equiv=refresh content='0;url=/x?q=你'>",
    "next": "<link rel=next href='/x?q=你'>",
    "base": "<base href='/x?q=你'><a href='#你'>",
    "after a base": "<base href='/'><a href='x?q=你'>",
    "old SVG": "<svg><a xlink:href='/x?q=你'></a></svg>",
}


@cases("markup", LINKS.values(), ids=LINKS)
def test_every_element_encodes_its_query(markup: str) -> None:
    page = document(markup)
    assert collect(page.elements).joined(URL, encode=page.encode).links == [f"{HOST}/x?{ASKED}"]
    outline = make_outline(page, facts=True, simhash=False, texts=True, link_rows=True, markdown=True)
    again = unpack(pack(outline), document(markup))
    assert again.links.links == [f"{HOST}/x?{ASKED}"]
    assert again.link_rows is not None
    assert unpack_rows(again.link_rows).targets == f"{HOST}/x?{ASKED}\n".encode()
    assert link_rows_of(document(markup), text_links=False) == again.link_rows


def test_texts_frames_facts_and_markdown_have_the_same_queries() -> None:
    head = "<link rel=canonical href='/c?q=你'><meta property=og:image content='/i?q=你'>"
    page = document(f"<head>{head}</head><p><a href='/x?q=你#你'>a link</a> <img src='/p?q=你' alt=x> text")
    outline = make_outline(page, facts=True, simhash=False, texts=True, markdown=True)
    assert dict(outline.links.texts) == {f"{HOST}/x?{ASKED}": "a link"}
    assert outline.links.canonical == f"{HOST}/c?{ASKED}"
    facts = describe(page, with_markdown=True)
    assert (facts.canonical_url, facts.image_url) == (f"{HOST}/c?{ASKED}", f"{HOST}/i?{ASKED}")
    assert f"[a link]({HOST}/x?{ASKED}#" in (facts.markdown or "")
    assert f"![x]({HOST}/p?{ASKED})" in (facts.markdown or "")
    script = document("<script>location.href = '/s?q=你#你'</script>")
    assert make_outline(script, facts=False, simhash=False).links.links == [f"{HOST}/s?{ASKED}"]
    frames = document("<frameset><frame src='/f?q=你'></frameset>")
    assert frame_links(frames) == [f"{HOST}/f?{ASKED}"]


LOADED = {
    "img": "<img src='/x?q=你'>",
    "srcset": "<img srcset='/x?q=你 2x'>",
    "source": "<picture><source srcset='/x?q=你'></picture>",
    "imagesrcset": "<link rel=preload as=image imagesrcset='/x?q=你'>",
    "script": "<script src='/x?q=你'></script>",
    "sheet": "<link rel=stylesheet href='/x?q=你'>",
    "poster": "<video poster='/x?q=你'></video>",
    "background": "<table background='/x?q=你'></table>",
    "SVG": "<svg><image href='/x?q=你'/></svg>",
    "style": "<style>a{b:url(/x?q=你)}</style>",
}


@cases("markup", LOADED.values(), ids=LOADED)
def test_what_a_page_loads_is_asked_and_rewritten_in_its_encoding(markup: str) -> None:
    assert loaded(document(markup)) == [f"{HOST}/x?{ASKED}"]
    files = {f"{HOST}/x?{ASKED}": "../file.bin"}
    assert b"../file.bin" in rewritten_page(document(markup), files.get)


def test_style_attributes_are_in_utf_8_as_in_browsers() -> None:
    assert loaded(document("<p style='a:url(/x?q=你)'>")) == [f"{HOST}/x?q=%E4%BD%A0"]


def test_style_sheets_are_in_their_own_encoding() -> None:
    sheet = document("a{b:url(/x?q=你)}", mime_type="text/css")
    assert loaded(sheet) == [f"{HOST}/x?{ASKED}"]
    assert b"url(f)" in rewritten_sheet(sheet, {f"{HOST}/x?{ASKED}": "f"}.get)


def test_links_that_are_opened_and_forms_are_in_the_encoding_of_the_page() -> None:
    page = document("<a href='/x?q=你'>1</a><form action='/f?q=你'></form>")
    assert [reference.url for reference in references(page.html, base_of(page))] == [
        f"{HOST}/x?{ASKED}",
        f"{HOST}/f?{ASKED}",
    ]
