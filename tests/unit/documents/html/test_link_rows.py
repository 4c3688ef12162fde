"""The rows of links: one for each element, and where on the page it stands."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.documents.document import Document
from webcrawl.documents.html import link_rows
from webcrawl.documents.html.link_rows import (
    ELEMENTS,
    MAX_ROWS_LENGTH,
    LinkRows,
    pack_rows,
    plain_rows,
    rows_of,
    unpack_rows,
)
from webcrawl.documents.html.link_texts import MAX_LINK_TEXT
from webcrawl.documents.html.outline import link_rows_of, links_of, make_outline

URL = "http://example.org/dir/page"


def document(html: str, url: str = URL) -> Document:
    return Document(html.encode("utf-8", "surrogatepass"), "text/html", "utf-8", url)


def rows(html: str, *, text_links: bool = False) -> LinkRows:
    page = document(html)
    nodes = page.search()
    links = links_of(page, texts=False, text_links=text_links)
    return rows_of(page, nodes, links, text_links=text_links)


def test_every_element_with_a_link_has_a_row() -> None:
    found = rows("""
        <link rel=canonical href=/c><link rel=stylesheet href=/s.css><link rel=icon href=/i>
        <link rel="ALTERNATE" title="Deutsch" href=/de>
        <meta http-equiv=refresh content="5; url=/moved"><base href=/base/>
        <body><nav><a href=a>one</a><a href=a#part rel="nofollow  Me">again</a><a href=#top>top</a></nav>
        <map><area href=b alt="a map"></map><iframe src=c title="a frame"></iframe>
        <a href=mailto:x@example.org>mail</a><a href="http://[">broken</a><a>no address</a><a href="">empty</a>
        <a href=d> two
          <b>lines</b> </a><a href=e><img src=x alt="a picture"></a><a href=f></a>""")
    assert list(
        zip(found.targets, found.texts, found.rels, [ELEMENTS[one] for one in found.elements], strict=True)
    ) == [
        ("http://example.org/c", "", "canonical", "link"),
        ("http://example.org/de", "Deutsch", "alternate", "link"),
        ("http://example.org/moved", "", "", "meta"),
        ("http://example.org/base/a", "one", "", "a"),
        ("http://example.org/base/a", "again", "nofollow me", "a"),
        ("http://example.org/base/", "top", "", "a"),
        ("http://example.org/base/b", "a map", "", "area"),
        ("http://example.org/base/c", "a frame", "", "iframe"),
        ("http://example.org/base/", "empty", "", "a"),
        ("http://example.org/base/d", "two lines", "", "a"),
        ("http://example.org/base/e", "a picture", "", "a"),
        ("http://example.org/base/f", "", "", "a"),
    ]
    assert len(found.blocks) == len(found)


def test_a_remembered_text_is_not_that_of_other_elements() -> None:
    plain = '<a href=1 title="f(1)">f(1)</a><link rel=next href=2 title="g(2)"><a href=3></a><a href=4> </a>'
    others = "<a href=5><script>f(1)</script></a><a href=6><style>g(2)</style>!</a>"
    pictures = "<a href=7><img src=x alt=one></a><a href=8> <img src=x alt=two></a>"
    for _ in range(2):
        found = rows(plain + others + pictures)
        assert found.texts == ["f(1)", "g(2)", "", "", "", "!", "one", "two"]


@cases("base", ["", "<base href=page>", f"<base href='{URL}#top'>", "<base href='http://['>"])
def test_links_to_the_page_itself_have_no_row(base: str) -> None:
    found = rows(
        f"{base}<a href=''>a</a><a href>b</a><a href='#c'>c</a><a href=d>d</a><iframe src=''></iframe>"
    )
    assert found.targets == ["http://example.org/dir/d"]


def test_links_that_no_browser_follows_have_no_row() -> None:
    found = rows("""<svg><a xlink:href=a>a drawing</a><a href=b xlink:href=no>b</a><use href=no /></svg>
        <a xlink:href=no>no drawing</a><noscript><a href=c>c</a></noscript><video src=no><a href=d>d</a></video>
        <noframes><a href=no>no</a></noframes><iframe src=e><a href=no>no</a></iframe><object data=no></object>
        <template><a href=no>no</a></template><textarea><a href=no></textarea><form action=no><q cite=no>""")
    assert found.targets == [f"http://example.org/dir/{name}" for name in "abcde"]
    assert found.texts == ["a drawing", "b", "c", "d", ""]


def test_links_to_the_base_that_are_not_followed_have_a_row() -> None:
    page = document("<base href=/b/><a rel=nofollow href='#x'>x</a><a href=c>c</a>")
    assert links_of(page, texts=False, text_links=False).links == ["http://example.org/b/c"]
    assert rows(page.text).targets == ["http://example.org/b/", "http://example.org/b/c"]


def test_followed_links_are_among_the_rows() -> None:
    page = document("<a href=a>1</a><a href=./a>2</a><a rel=nofollow href=b>3</a><frameset><frame src=c>")
    assert {*links_of(page, texts=False, text_links=False).links} <= {*rows(page.text).targets}


PAGE = """<html class=js><body class="home page-{n}"><nav class="main menu-item-{n}"><ul>
    <li><a href=/1>1</a></li><li><span><a href=/2>2</a></span></li></ul></nav>
    <main id=text-{n}><p><a href=/3>3</a> and <em><a href=/4>4</a></em></p>{more}<div><a href=/5>5</a></div></main>"""


def test_a_block_is_the_same_on_pages_of_one_template() -> None:
    first = rows(PAGE.format(n=1, more=""))
    second = rows(PAGE.format(n=22, more="<p>more <a href=/6>6</a></p><p></p>"))
    blocks = dict(zip(first.targets, first.blocks, strict=True))
    assert dict(zip(second.targets, second.blocks, strict=True)) == {
        **blocks,
        "http://example.org/6": blocks["http://example.org/3"],
    }
    menu, text, last = (blocks[f"http://example.org/{number}"] for number in (1, 3, 5))
    assert blocks["http://example.org/2"] == menu
    assert blocks["http://example.org/4"] == text
    assert len({menu, text, last, 0}) == 4


def test_a_block_depends_on_the_classes_around_it() -> None:
    plain = rows("<div><p><a href=/a>a</a>").blocks[0]
    assert rows("<div><p id=x style='color: red'><a class=c href=/a>a</a>").blocks[0] == plain
    assert rows("<div class=aside><p><a href=/a>a</a>").blocks[0] != plain
    assert rows("<div class='post-7 8x'><p><a href=/a>a</a>").blocks[0] == plain
    assert rows("<section><p><a href=/a>a</a>").blocks[0] != plain


def test_known_blocks_are_bounded_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [f"<div class=c{'x' * number}><p><span><a href=/a>a</a></span>" for number in range(8)]
    blocks = [rows(one).blocks for one in pages]
    monkeypatch.setattr(link_rows, "_steps", {})
    monkeypatch.setattr(link_rows, "_MAX_STEPS", 3)
    assert [rows(one).blocks for one in pages] == blocks
    assert len(link_rows._steps) <= 3


def test_addresses_in_the_text_are_rows() -> None:
    found = rows("<p><a href=/a>a</a> see http://b.example/ and http://example.org/a", text_links=True)
    assert (found.targets, [ELEMENTS[one] for one in found.elements]) == (
        ["http://example.org/a", "http://b.example/"],
        ["a", "text"],
    )
    assert found.blocks[0] != 0 == found.blocks[1]


def test_the_outline_has_rows_on_request_only() -> None:
    page = document("<p><a href=/a>a</a>")
    assert make_outline(page, facts=False, simhash=False).link_rows is None
    packed = make_outline(page, facts=True, simhash=False, link_rows=True).link_rows
    assert packed == link_rows_of(document("<p><a href=/a>a</a>"), text_links=False)


@cases(
    ("html", "number"),
    [
        ("<a href=/a>x</a>" * 200_000, 200_000),
        ("<div>" * 20_000 + "<a href=/a>x</a>", 1),
        ("<div><a href=/a>x</a>" * 20_000, 20_000),
        (f"<a href=/a>{'x ' * 500_000}</a>" * 3, 3),
        (f"<a href=/a rel='{'x ' * 500_000}'>x</a>", 1),
        (f"<div class='{'c ' * 500_000}'><a href=/a>x</a></div>" * 2, 2),
    ],
    ids=["links", "depth", "nested", "text", "rel", "class"],
)
def test_hostile_pages_have_bounded_rows(html: str, number: int) -> None:
    found = rows(html)
    assert 0 < len(found) <= number
    assert max(map(len, found.texts)) <= MAX_LINK_TEXT
    assert len(pack_rows(found)) < 40 * len(found) + 1000


def test_the_rows_of_a_page_have_a_limit_in_all() -> None:
    found = rows(f"<base href=http://example.org/{'x' * 8000}/>" + "<a href=y>x</a>" * 2000)
    assert len(found) < 2000
    assert MAX_ROWS_LENGTH - 9000 < sum(map(len, found.targets)) <= MAX_ROWS_LENGTH


def test_texts_of_any_characters_fit_into_lines() -> None:
    found = rows("<a href=/a>\x00a\x1bb\u2028c\x85d\x0b&#xD800;\n\te</a><a href=/b rel='a\x0bb'>z</a>")
    packed = unpack_rows(pack_rows(found))
    assert packed.texts.decode().split("\n") == [*found.texts, ""]
    assert found.texts[0] == "a\x1bb c d \ufffd e"
    assert packed.rels == b"\na b\n"


@given(st.text() | st.text("<>a href=/'\"\n\r\x0b\x85 rel"))
def test_any_markup_is_packed_and_unpacked(text: str) -> None:
    found = rows(f"<a href='{text}' rel='{text}'>{text}</a><div class='{text}'>{text}<a href=/b>{text}</a>")
    packed = unpack_rows(pack_rows(found))
    assert packed.number == len(found) == packed.targets.count(b"\n")
    assert packed.targets.decode().split("\n") == [*found.targets, ""]


GOOD = msgpack.unpackb(pack_rows(plain_rows(["http://example.org/"], "header")))


@cases(
    "changed",
    [
        {0: 2},
        {0: -1},
        {0: "1"},
        {1: "http://example.org/\n"},
        {1: b"http://example.org/"},
        {1: b"a\nb"},
        {1: b"\xff\n"},
        {2: b""},
        {3: None},
        {4: bytes([len(ELEMENTS)])},
        {4: 10**12},
        {5: b"1234567"},
        {5: []},
    ],
    ids=str,
)
def test_rows_of_a_process_that_was_taken_over_are_refused(changed: dict[int, object]) -> None:
    assert unpack_rows(msgpack.packb(GOOD)).number == 1
    with pytest.raises(ValueError, match="not rows of links|utf-8"):
        unpack_rows(msgpack.packb([changed.get(place, value) for place, value in enumerate(GOOD)]))


@given(st.binary(max_size=80))
def test_any_bytes_are_refused_or_rows(data: bytes) -> None:
    try:
        unpack_rows(data)
    except ValueError:
        return
    raise AssertionError("random bytes are no rows")
