"""Facts of HTML pages."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import (
    MAX_HEADING,
    MAX_HEADINGS,
    MAX_OPEN_GRAPH,
    MAX_TITLE,
    HTMLFacts,
    describe,
    robots_metas,
)
from webcrawl.documents.html.linked_data import KEPT
from webcrawl.documents.html.text import lines_of
from webcrawl.documents.markup import with_whole_head
from webcrawl.documents.mime.facts import MAX_DETAILS

URL = "https://example.org/folder/page"


def facts(markup: str) -> HTMLFacts:
    return describe(Document(markup.encode(), "text/html", "utf-8", URL))


@cases(
    ("markup", "title"),
    [
        ("<title> A\n\tgood&nbsp;&amp; <b>title</title>", "A good & <b>title"),
        ("<title></title>", None),
        ("<p>no title", None),
        ("<body><svg><title>drawing</title></svg>", None),
        ("<body><svg>" + "<td>" * 2_000 + "<title></title>" * 5_000 + "</svg><title>late", "late"),
        ("<body><svg><title>drawing</title></svg><title>late</title>", "late"),
        ("<title>one</title><title>two</title>", "one"),
        ("<title>" + "x" * 5_000, "x" * MAX_TITLE),
        ("<title>a\0b</title>", "a\ufffdb"),
    ],
)
def test_title_is_extracted(markup: str, title: str | None) -> None:
    assert facts(markup).title == title


@cases(
    ("markup", "description"),
    [
        ('<meta name="Description" content=" some\nwords ">', "some words"),
        ('<meta property="og:description" content="open graph">', "open graph"),
        ('<meta property="og:description" content="og"><meta name=description content=plain>', "plain"),
        ("<meta name=description content>", None),
        ("<meta name=description>", None),
        ("", None),
    ],
)
def test_description_is_extracted(markup: str, description: str | None) -> None:
    assert facts(markup).description == description


@cases(
    ("markup", "language"),
    [
        ("<html lang=en>", "en"),
        ("<html lang='EN-us'>", "en"),
        ("<html lang=pt_BR>", "pt"),
        ("<html lang=' zh-Hant-TW '>", "zh"),
        ("<html xml:lang=de>", "de"),
        ("<html lang=''><meta http-equiv=Content-Language content='fr, en'>", "fr"),
        ("<html lang=english>", None),
        ("<html lang='{{ lang }}'>", None),
        ("<html lang='{{ lang }}'><meta property=og:locale content=nl_BE>", "nl"),
        ("<html>", None),
    ],
)
def test_declared_language_is_extracted(markup: str, language: str | None) -> None:
    assert facts(markup).language == language


@cases(
    ("markup", "url"),
    [
        ("<link rel=canonical href=/x>", "https://example.org/x"),
        ("<link rel='Canonical nofollow' href='other?a=1'>", "https://example.org/folder/other?a=1"),
        ("<base href=https://base.example/d/><link rel=canonical href=x>", "https://base.example/d/x"),
        ("<base href='http://['><link rel=canonical href=/x>", "https://example.org/x"),
        (
            "<link rel=canonical href=x><body><svg><base href=/no/></svg><p>a<base href=/d/><base href=/e/>",
            "https://example.org/d/x",
        ),
        ("<link rel=canonical href='javascript:alert(1)'>", None),
        ("<link rel=canonical href='http://['>", None),
        ("<link rel=alternate href=/x>", None),
        ("<body><p>comment <link rel=canonical href=/x>", None),
    ],
)
def test_canonical_url_is_resolved(markup: str, url: str | None) -> None:
    assert facts(markup).canonical_url == url


PIXEL = "<noscript><img height=1 width=1 src=https://counter.example/tr?id=1></noscript>"
NOSCRIPTS = [
    PIXEL,
    PIXEL.upper(),
    "<noscript><img src=https://counter.example/tr></noscript>",
    "<noscript><p>Switch on scripts</p></noscript>",
    "<noscript>Switch on scripts</noscript><!-- <body> --><script>'<p>'</script>",
    "<noscript><style>p {}</style><iframe src=https://counter.example/></iframe></noscript >",
    f"<title>x</title>{PIXEL}<style>a</style>{PIXEL}",
]


@cases("noscript", NOSCRIPTS)
@cases("body", ["</head><body class=a>", "<body class=a>", "</head>", "<p>"])
def test_a_noscript_does_not_end_the_head(noscript: str, body: str) -> None:
    rest = "<base href=/d/><link rel=canonical href=x><link rel=alternate type=application/rss+xml href=feed>"
    found = facts(f"<html><head>{noscript}{rest}{body}<img src=y><p>text")
    assert found.canonical_url == "https://example.org/d/x"
    assert found.details["feeds"] == ["https://example.org/d/feed"]
    assert found.details["first_image"] == "https://example.org/d/y"
    assert found.text == "text"


@cases(
    "markup",
    [
        "<head><noscript><link rel=stylesheet href=a><style>a</style><!-- b --></noscript><title>x</title></head>",
        "<title>x</title></head><body><noscript><img src=a></noscript>",
        "<title>x</title><p>a<noscript><img src=a></noscript>",
        "<title>x</title><noscript>",
        "<script><noscript><p></noscript></script>",
        "",
    ],
)
def test_other_markup_is_not_moved(markup: str) -> None:
    written = markup.encode()
    assert with_whole_head(written) is written


def test_robots_metas_are_collected() -> None:
    markup = """<meta name=ROBOTS content="noindex, follow"><meta name=ExampleBot content="NoArchive">
        <meta name=viewport content="width=device-width"><meta name=robots content=all>"""
    assert robots_metas(Document(markup.encode(), "text/html", "utf-8", URL).metas) == [
        ("robots", "noindex, follow"),
        ("examplebot", "NoArchive"),
        ("robots", "all"),
    ]


@cases(
    ("markup", "author"),
    [
        ('<meta name=author content=" Ada\nLovelace ">', "Ada Lovelace"),
        ('<meta property=article:author content="https://facebook.example/ada">', None),
        ("<meta name=author content=''><p itemprop=author>Ada", "Ada"),
        (
            """<script type="application/ld+json">{"@type": "Article", "author": [{"name": "Ada"}, "B"]}</script>""",
            "Ada",
        ),
        ("<p>by Ada", None),
        ("<a itemprop=author href=/ada>Ada</a>", "Ada"),
        (
            "<div itemprop=author class=vcard><img class=photo src=a.png> <a class='url fn' href=/ada>Ada Lovelace</a>"
            "<span class=title>Editor</span> <span class=tel>+44 20 7946 0000</span></div>",
            "Ada Lovelace",
        ),
        ("<div itemprop=author itemscope>By <b itemprop=name>Ada</b>, London</div>", "Ada"),
        ("<div itemprop='author creator' itemscope><meta itemprop=name content=Ada>London</div>", "Ada"),
        ("<p itemprop=author class=h-card><span class=p-name></span>Ada</p>", "Ada"),
    ],
)
def test_author_is_extracted(markup: str, author: str | None) -> None:
    assert facts(markup).author == author


@cases(
    ("markup", "day"),
    [
        ('<meta property="article:published_time" content="2024-05-17T22:00:00+00:00">', 17),
        ('<meta name=DC.date.issued content="2024-05-17">', 17),
        ("<time datetime=2024-05-17>in spring</time>", 17),
        ("<time datetime=2024-05-17>one</time><time datetime=2024-05-18>or the other</time>", None),
        ("<time itemprop=datePublished datetime=2024-05-17>a</time><time datetime=2024-05-18>b</time>", 17),
        ("<span itemprop=datePublished>May 17, 2024</span>", 17),
        (
            """<script type="application/ld+json">{"@type": "Article", "datePublished": "2024-05-17"}</script>""",
            17,
        ),
        ("<meta name=date content=soon><meta name=pubdate content=20240517>", 17),
        ("<meta name=date content=2999-01-01>", None),
        ("<p>2024-05-17", None),
    ],
)
def test_publication_date_is_extracted(markup: str, day: int | None) -> None:
    found = facts(markup).published_at
    assert (
        found is None if day is None else found is not None and found.date() == datetime(2024, 5, day).date()
    )
    assert found is None or found.tzinfo is UTC


def test_publication_date_is_read_from_the_url() -> None:
    url = "https://blog.example/2024/05/17/a-post"
    assert describe(Document(b"<p>x", "text/html", None, url)).published_at == datetime(
        2024, 5, 17, tzinfo=UTC
    )


@cases(
    ("markup", "image"),
    [
        (
            "<meta property=og:image content=/a.png><meta name=twitter:image content=/b.png>",
            "https://example.org/a.png",
        ),
        (
            "<base href=https://cdn.example/><meta name=twitter:image content=b.png>",
            "https://cdn.example/b.png",
        ),
        (
            "<meta property=og:image content='javascript:x'><img itemprop=image src=c.png>",
            "https://example.org/folder/c.png",
        ),
        (
            """<script type="application/ld+json">{"@type": "Article", "image": {"url": "/d.png"}}</script>""",
            "https://example.org/d.png",
        ),
        ("<img src=e.png>", None),
    ],
)
def test_image_url_is_extracted(markup: str, image: str | None) -> None:
    assert facts(markup).image_url == image


def test_details_hold_headings_open_graph_schema_and_metas() -> None:
    found = facts(
        """<meta property="og:type" content="article"><meta property=og:site_name content="The Site">
        <meta name=keywords content="a, b"><meta name=generator content="Maker 1">
        <meta name=robots content="noarchive"><meta property="article:modified_time" content="2024-05-18">
        <script type="application/ld+json">{"@type": "NewsArticle", "headline": "One"}</script>
        <h1>One <b>heading</b></h1><h2></h2><h2>Two</h2><h3>Three</h3><h2>Four</h2>
        <div itemscope itemtype="https://schema.org/Product"></div>"""
    )
    assert found.details == {
        "headings": {"h1": ["One heading"], "h2": ["Two", "Four"], "h3": ["Three"]},
        "open_graph": {"type": "article", "site_name": "The Site"},
        "schema": [{"type": "NewsArticle", "headline": "One"}],
        "microdata": ["Product"],
        "robots": {"robots": "noarchive"},
        "modified": "2024-05-18T00:00:00+00:00",
        "keywords": "a, b",
        "generator": "Maker 1",
    }
    assert facts("<p>plain").details == {}


def test_a_heading_with_microdata_is_read_once() -> None:
    found = facts("<h1 itemprop=headline itemtype=https://schema.org/Thing>One</h1><h1>Two</h1>")
    assert found.details["headings"] == {"h1": ["One", "Two"]}


def test_details_are_bounded() -> None:
    many = range(3_000)
    found = facts(
        "".join(f"<h2>{'x' * 5_000}</h2><meta property=og:{number} content={'y' * 5_000}>" for number in many)
        + "".join(f"<p itemscope itemtype=http://s.org/T{number} itemprop=a{number}>z</p>" for number in many)
        + f"<meta name=keywords content={'k' * 100_000}>"
        + "".join(f"<meta name=bot{number} content=noindex>" for number in many)
        + "".join(
            f'<script type="application/ld+json">{json.dumps(dict.fromkeys(KEPT, "z" * 300) | {"@type": "T"})}</script>'
            for _ in range(10)
        )
    )
    assert found.details["headings"] == {"h2": ["x" * MAX_HEADING] * MAX_HEADINGS}
    assert 10 < len(found.details["open_graph"]) <= MAX_OPEN_GRAPH
    assert len(json.dumps(found.details)) <= MAX_DETAILS


@cases(
    ("markup", "text"),
    [
        ("<p>one</p><p>two", "one\ntwo"),
        ("<div>one</div>two<div>three</div>", "one\ntwo\nthree"),
        ("fo<b>o</b>ba<a href=x><i>r</i></a>", "foobar"),
        ("<span><div>a</div></span>b", "a\nb"),
        ("a<br>b<img>c", "a\nb\nc"),
        ("<table><tr><td>1<td>2<tr><td>3</table>", "1\n2\n3"),
        ("<ul><li>1<li>2</ul>3", "1\n2\n3"),
        (" a \n\t b&nbsp; c&#8239;d ", "a\nb c d"),
        ("a<!-- comment -->b", "ab"),
        ("a<script>var x</script>b<style>p {}</style>c", "abc"),
        ("a<noscript><p>no</p></noscript><template><p>no</template><iframe>no</iframe>b", "ab"),
        ("<title>no</title>a<svg><style>no</style><text>yes</text></svg>", "a\nyes"),
        ("<pre>a\n  b</pre><textarea>c</textarea><select><option>d<option>e</select>", "a\nb\nc\nd\ne"),
        ("<frameset><frame src=x><noframes>no</noframes></frameset>", ""),
        ("", ""),
    ],
)
def test_visible_text_is_extracted(markup: str, text: str) -> None:
    assert facts(markup).text == text


def test_describe_does_not_change_the_tree() -> None:
    markup = (
        "<title>t</title><script>s</script><noscript><a href=/a>a</a></noscript><template>x</template>" * 3
    )
    document = Document(markup.encode(), "text/html", "utf-8", URL)
    before = document.html.html
    first = describe(document)
    assert document.html.html == before
    assert describe(document) == first


@pytest.mark.parametrize("tag", ["<div>", "<a href=x><div>", "<b><p>", "<table><tr><td>", "<svg><g>"])
def test_deeply_nested_page_is_described_quickly_and_completely(tag: str) -> None:
    begun = time.process_time()
    found = facts(f"<title>deep</title>first {tag * 100_000}last")
    assert time.process_time() - begun < 2
    assert found.title == "deep"
    assert (found.text[:5], found.text[-4:]) == ("first", "last")


NAMES = "p div b a script noscript template svg title head body html table td select math br"
TAGS = st.sampled_from(NAMES.split())
PIECES = st.one_of(
    TAGS.map("<{}>".format),
    TAGS.map("</{}>".format),
    st.text(max_size=5),
    st.sampled_from(["<!--", "-->", "<![CDATA["]),
)


@given(st.lists(PIECES, max_size=60))
def test_any_markup_can_be_described(pieces: list[str]) -> None:
    found = describe(Document("".join(pieces).encode("utf-8", "replace"), "text/html", "utf-8", URL))
    assert found.main_text is None or "\0" not in found.main_text
    assert found.text == "\n".join(lines_of(found.text))
    assert "\0" not in found.text
