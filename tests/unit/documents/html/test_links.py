"""Links of a page: sources, spellings, exclusions, and equality with one-by-one resolution."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from selectolax.lexbor import LexborHTMLParser

from tests.cases import cases
from webcrawl.documents.document import Document
from webcrawl.documents.html.links import PageLinks, collect, frame_links, refresh_address
from webcrawl.documents.link_elements import MANY_ELEMENTS, search
from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import resolve

URL = "http://example.org/dir/page.html?x=1"


def links_of(html: str, url: str = URL) -> PageLinks:
    return collect(search(LexborHTMLParser(html)).elements).joined(url)


def test_links_of_every_source_are_in_document_order() -> None:
    page = links_of("""
        <link rel=canonical href=/canonical><link rel="next" href=?page=2><link rel=PREV href=?page=0>
        <link rel="alternate" hreflang=de href=/de/>
        <link rel="alternate" type="application/rss+xml" href=/feed>
        <link rel="stylesheet" href=/s.css><link rel="alternate stylesheet" href=/t.css>
        <link rel=icon href=/i>
        <link href=/norel><link rel="preload prefetch dns-prefetch" href=/p>
        <meta http-equiv=Refresh content="3; url=/moved">
        <body><a href=one>1</a><map><area href=../two></map><a name=x>anchor</a>
        <p><iframe src=//other.example/three></iframe><a href="https://Example.ORG:443/four#part">4</a>
        <svg><a href=/five /></svg><img src=/i.png><script src=/s.js></script><form action=/f></form>
        <template><a href=/template></a></template><noscript><a href=/six>6</a></noscript>""")
    assert page.links == [
        "http://example.org/canonical",
        "http://example.org/dir/page.html?page=2",
        "http://example.org/dir/page.html?page=0",
        "http://example.org/de/",
        "http://example.org/feed",
        "http://example.org/moved",
        "http://example.org/dir/one",
        "http://example.org/two",
        "http://other.example/three",
        "https://example.org/four",
        "http://example.org/five",
        "http://example.org/six",
    ]
    assert page.canonical == "http://example.org/canonical"
    assert (page.nofollow, page.malformed, page.base) == (0, 0, URL)


def test_frames_that_a_script_loads_later_are_links() -> None:
    markup = """<iframe data-src=a></iframe><iframe src=about:blank data-lazy-src=b></iframe>
        <iframe src=c data-src="{d}"></iframe><iframe data-original=e src=f></iframe><img data-src=g>"""
    links = [f"http://example.org/dir/{name}" for name in "abce"]
    assert links_of(markup).links == links
    many = links_of(markup + "<a href=h></a>" * MANY_ELEMENTS)
    assert list(many.links) == [*links, "http://example.org/dir/h"]


def test_fragments_are_links_to_the_base() -> None:
    page = links_of(
        "<base href=/other#x><a href=a>a</a><a href='#b'>b</a><a href=''>c</a><iframe src=''></iframe>"
    )
    assert page.links == ["http://example.org/a", "http://example.org/other"]
    assert links_of(f"<base href='{URL}'><a href='#b'>b</a><a href=''>c</a>").links == []


def test_frames_are_links() -> None:
    page = links_of("<frameset><frame src=a><frame src='b'><frame src='about:blank'></frameset>")
    assert page.links == ["http://example.org/dir/a", "http://example.org/dir/b"]


@pytest.mark.parametrize(
    ("base", "links"),
    [
        ("", ["http://example.org/dir/a", "http://example.org/b"]),
        ("<base href=/fr/><base href=/no/>", ["http://example.org/fr/a", "http://example.org/b"]),
        ("<base href='http://[oops'>", ["http://example.org/dir/a", "http://example.org/b"]),
    ],
)
def test_frame_links_are_resolved_and_unique(base: str, links: list[str]) -> None:
    frames = f"<frame src=a><frame src=/b#top><frame src='{URL}'><frame src='#x'><frame src='http://['><frame src=a>"
    markup = f"<head>{base}</head><frameset>{frames}</frameset>"
    assert frame_links(Document(markup.encode(), "text/html", "utf-8", URL)) == links


def test_links_are_unique() -> None:
    page = links_of("<a href=b>1</a><a href=b#x>2</a><a href=./b>3</a><a href=a>4</a><a href=b>5</a>")
    assert page.links == ["http://example.org/dir/b", "http://example.org/dir/a"]


@cases(
    ("href", "link"),
    [
        ("  /a \n", "http://example.org/a"),
        ("/a\nb\tc", "http://example.org/abc"),
        ("\x01/a\x1f", "http://example.org/a"),
        ("/a b", "http://example.org/a%20b"),
        ("/a #b", "http://example.org/a%20"),
        ("/a\n#b", "http://example.org/a"),
        ("/a#b c#d", "http://example.org/a"),
        ("/a?b&amp;c&copy=1", "http://example.org/a?b&c&copy=1"),
        ("/ü", "http://example.org/%C3%BC"),
        ("HTTPS://Bücher.example", "https://xn--bcher-kva.example/"),
        ("http:x", "http://example.org/dir/x"),
        ("\\\\h.example\\x", "http://h.example/x"),
        ("http://me:pw@h.example/", "http://h.example/"),
        ("?", "http://example.org/dir/page.html?"),
        ("ht\ntp://h.example/", "http://h.example/"),
        ("a:b", None),
        ("", None),
        ("   ", None),
        ("#", None),
        (" \t#top", None),
        ("javascript:void(0)", None),
        (" JavaScript:x", None),
        ("java\nscript:x", None),
        ("mailto:a@example.org", None),
        ("data:text/html,<a href=/x>", None),
        ("tel:+123", None),
        ("ftp://example.org/", "ftp://example.org/"),
        ("wais://example.org/", None),
    ],
)
def test_link_is_normalized_or_skipped(href: str, link: str | None) -> None:
    page = links_of(f'<a href="{href}">x</a>')
    assert page.links == ([link] if link else [])
    assert page.malformed == 0


def test_malformed_links_are_counted() -> None:
    page = links_of(
        "<a href='http://['>1</a><a href='http://['>2</a><a href='//a b/'>3</a><a href=ok>4</a><a href>5"
    )
    assert page.links == ["http://example.org/dir/ok"]
    assert page.malformed == 2


def test_nofollow_links_are_counted_and_skipped() -> None:
    page = links_of("""<a href=a rel=nofollow>1</a><a href=b REL="ugc
        NoFollow external">2</a><a href=c rel=nofollower>3</a><area href=d rel=nofollow>
        <a href=a>followed here</a><a href=mailto:x rel=nofollow>no link</a>
        <a href=#x rel=nofollow>no link</a>
        <link rel="alternate nofollow" href=e>""")
    assert page.links == ["http://example.org/dir/c", "http://example.org/dir/a"]
    assert page.nofollow == 4


@cases(
    ("html", "base"),
    [
        ("<base href=/b/>", "http://example.org/b/"),
        ("<base target=_top><base href=b/><base href=/c/>", "http://example.org/dir/b/"),
        ("<a href=x></a><base href='https://Other.example#f'>", "https://other.example/"),
        ("<base href=''><base href=/c/>", URL),
        ("<base href='javascript:x'>", URL),
        ("<base href='http://['>", URL),
        ("<svg><base href=/s/></svg><math><g><base href=/m/></g></math>", URL),
        ("<svg><base href=/s/></svg><base href=/c/>", "http://example.org/c/"),
        ("<svg><foreignObject><base href=/h/></foreignObject></svg>", "http://example.org/h/"),
        ("<math><mtext><base href=/h/></mtext></math>", "http://example.org/h/"),
        (f"<svg>{'<base href=/s/>' * 2_000}", URL),
    ],
)
def test_base_element_applies(html: str, base: str) -> None:
    page = links_of(html + "<a href=x>")
    assert page.base == base
    assert page.links == [resolve("x", base)]


@cases(
    ("content", "address"),
    [
        ("5; url=/x", "/x"),
        ("5;URL=/x", "/x"),
        (" 0 ; Url = '/x' ", "/x"),
        ('0;url="/x" y', "/x"),
        ("0;url='/x", "/x"),
        ("0;url=/x'y", "/x'y"),
        ("0, /x", "/x"),
        ("0 /x", "/x"),
        (".5;/x", "/x"),
        ("1.5.2;/x", "/x"),
        ("0;'/x'", "/x"),
        ("0;urls/x", "urls/x"),
        ("0;url /x", "url /x"),
        ("0;url=/a\nb", "/a\nb"),
        ("5", ""),
        ("5;", ""),
        ("5;url=", ""),
        ("5;url=''", ""),
        ("url=/x", ""),
        ("; url=/x", ""),
        ("5x;url=/x", ""),
        ("", ""),
    ],
)
def test_refresh_address_is_parsed(content: str, address: str) -> None:
    assert refresh_address(content).rstrip() == address


def test_only_refresh_metas_are_links() -> None:
    page = links_of("""<meta http-equiv=content-type content="0;url=/no">
        <meta name=refresh content="0;url=/no">
        <meta http-equiv=REFRESH><meta http-equiv=REFRESH content="10">
        <meta http-equiv=REFRESH content="0;URL=yes">""")
    assert page.links == ["http://example.org/dir/yes"]


@cases(
    ("html", "canonical"),
    [
        ("<link rel=canonical href=/a#b><link rel=canonical href=/b>", "http://example.org/a"),
        ("<base href=/x/><link rel='Canonical foo' href=a>", "http://example.org/x/a"),
        ("<link rel=canonical href='http://['>", None),
        ("<link rel=canonical href='mailto:x'>", None),
        ("<link rel=canonical href=''>", None),
        ("<a rel=canonical href=/a>", None),
        ("", None),
    ],
)
def test_canonical_link_is_extracted(html: str, canonical: str | None) -> None:
    assert links_of(html).canonical == canonical


def test_non_ascii_links_of_a_page_in_utf_8_are_escaped() -> None:
    html = '<a href="/é/中?q=ü">x</a><a href="/\x00\ud800">y</a>'
    assert links_of(html).links == [
        "http://example.org/%C3%A9/%E4%B8%AD?q=%C3%BC",
        "http://example.org/%EF%BF%BD",
    ]


pieces = st.one_of(
    st.sampled_from(["http:", "https:", "//", "/", "..", "?", "#", "@", ":", " ", "\n", "mailto:", "[", "h"])
)
hrefs = st.lists(st.lists(pieces, max_size=6).map("".join) | st.text(max_size=8), max_size=8)


@given(hrefs)
def test_links_equal_one_by_one_resolution(written: list[str]) -> None:
    """The shortcuts for fragments, schemes and repeated addresses only save time."""
    tree = LexborHTMLParser("<body>" + "<a href=x>" * len(written))
    for node, href in zip(tree.css("a"), written, strict=True):
        node.attrs["href"] = href.replace("\x00", "").encode("utf-8", "ignore").decode()
    expected: dict[str, None] = {}
    for node in tree.css("a"):
        href = node.attributes["href"] or ""
        try:
            link = resolve(href, URL)
        except InvalidURL:
            continue
        before_fragment = href.partition("#")[0].strip("".join(map(chr, range(33))))
        if link is not None and before_fragment:
            expected[link] = None
    assert collect(search(tree).elements).joined(URL).links == list(expected)
