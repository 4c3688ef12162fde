"""Facts of HTML pages."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies as st

from webcrawl.document import Document
from webcrawl.mime.html import MAX_TITLE, HTMLFacts, describe, robots_metas

URL = "https://example.org/folder/page"


def facts(markup: str) -> HTMLFacts:
    return describe(Document(markup.encode(), "text/html", "utf-8", URL))


@pytest.mark.parametrize(
    ("markup", "title"),
    [
        ("<title> A\n\tgood&nbsp;&amp; <b>title</title>", "A good & <b>title"),
        ("<title></title>", None),
        ("<p>no title", None),
        ("<body><svg><title>drawing</title></svg>", None),
        ("<body><svg><title>drawing</title></svg><title>late</title>", "late"),
        ("<title>one</title><title>two</title>", "one"),
        ("<title>" + "x" * 5_000, "x" * MAX_TITLE),
        ("<title>a\0b</title>", "a\ufffdb"),
    ],
)
def test_title(markup: str, title: str | None) -> None:
    assert facts(markup).title == title


@pytest.mark.parametrize(
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
def test_description(markup: str, description: str | None) -> None:
    assert facts(markup).description == description


@pytest.mark.parametrize(
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
        ("<html>", None),
    ],
)
def test_language(markup: str, language: str | None) -> None:
    assert facts(markup).language == language


@pytest.mark.parametrize(
    ("markup", "url"),
    [
        ("<link rel=canonical href=/x>", "https://example.org/x"),
        ("<link rel='Canonical nofollow' href='other?a=1'>", "https://example.org/folder/other?a=1"),
        ("<base href=https://base.example/d/><link rel=canonical href=x>", "https://base.example/d/x"),
        ("<base href='http://['><link rel=canonical href=/x>", "https://example.org/x"),
        ("<link rel=canonical href='javascript:alert(1)'>", None),
        ("<link rel=canonical href='http://['>", None),
        ("<link rel=alternate href=/x>", None),
        ("<body><p>comment <link rel=canonical href=/x>", None),
    ],
)
def test_canonical_url(markup: str, url: str | None) -> None:
    assert facts(markup).canonical_url == url


def test_meta_robots() -> None:
    markup = """<meta name=ROBOTS content="noindex, follow"><meta name=ExampleBot content="NoArchive">
        <meta name=viewport content="width=device-width"><meta name=robots content=all>"""
    assert robots_metas(Document(markup.encode(), "text/html", "utf-8", URL)) == [
        ("robots", "noindex, follow"),
        ("examplebot", "NoArchive"),
        ("robots", "all"),
    ]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>one</p><p>two", "one two"),
        ("<div>one</div>two<div>three</div>", "one two three"),
        ("fo<b>o</b>ba<a href=x><i>r</i></a>", "foobar"),
        ("<span><div>a</div></span>b", "a b"),
        ("a<br>b<img>c", "a b c"),
        ("<table><tr><td>1<td>2<tr><td>3</table>", "1 2 3"),
        ("<ul><li>1<li>2</ul>3", "1 2 3"),
        (" a \n\t b&nbsp; c&#8239;d ", "a b c d"),
        ("a<!-- comment -->b", "ab"),
        ("a<script>var x</script>b<style>p {}</style>c", "abc"),
        ("a<noscript><p>no</p></noscript><template><p>no</template><iframe>no</iframe>b", "ab"),
        ("<title>no</title>a<svg><style>no</style><text>yes</text></svg>", "a yes"),
        ("<pre>a\n  b</pre><textarea>c</textarea><select><option>d<option>e</select>", "a b c d e"),
        ("<frameset><frame src=x><noframes>no</noframes></frameset>", ""),
        ("", ""),
    ],
)
def test_text(markup: str, text: str) -> None:
    assert facts(markup).text == text


def test_describing_leaves_the_tree_alone() -> None:
    markup = (
        "<title>t</title><script>s</script><noscript><a href=/a>a</a></noscript><template>x</template>" * 3
    )
    document = Document(markup.encode(), "text/html", "utf-8", URL)
    before = document.html.html
    first = describe(document)
    assert document.html.html == before
    assert describe(document) == first


@pytest.mark.parametrize("tag", ["<div>", "<a href=x><div>", "<b><p>", "<table><tr><td>", "<svg><g>"])
def test_deep_nesting_is_quick_and_whole(tag: str) -> None:
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
def test_any_markup_has_facts(pieces: list[str]) -> None:
    found = describe(Document("".join(pieces).encode("utf-8", "replace"), "text/html", "utf-8", URL))
    assert found.text == " ".join(found.text.split())
    assert "\0" not in found.text
