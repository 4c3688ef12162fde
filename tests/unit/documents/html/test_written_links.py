"""Addresses that an HTML page shows as text."""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser

from tests.cases import cases
from webcrawl.documents.html.link_texts import written_links
from webcrawl.documents.html.links import collect
from webcrawl.documents.link_elements import search

URL = "http://site.example/folder/page"


def written(markup: str) -> list[str]:
    """The links of a page that are written in its text only."""
    tree = LexborHTMLParser(markup)
    links = collect(search(tree).elements).joined(URL).links
    return [link for link in written_links(tree) if link not in links]


@cases(
    ("markup", "links"),
    [
        ("<p>See http://a.example/x, or (www.a.example)", ["http://a.example/x", "http://www.a.example/"]),
        ("<p>http://a.ex<b>ample/x</b><wbr>yz<p>", ["http://a.example/xyz"]),
        (
            "<table><td>http://a.example/1<td>http://a.example/2<br>3",
            ["http://a.example/1", "http://a.example/2"],
        ),
        ("http://a.example/1<a href=/>more</a>of it", ["http://a.example/1"]),
        ("<a href=/x>http://a.example/shorten...</a>", []),
        ("<a href=/x>http://a.example/1", []),
        ("<a href=/x><b>http://a.example/1</b></a>http://a.example/2", ["http://a.example/2"]),
        ("<a href=http://a.example/1>x</a> http://a.example/1#part", []),
        (
            "<pre>curl http://a.example/1\n</pre><code>http://a.example/2</code>",
            ["http://a.example/1", "http://a.example/2"],
        ),
        ("http://a.example/?a=1&amp;b=2", ["http://a.example/?a=1&b=2"]),
        ("<script>x = 'http://a.example/'</script><style>/* http://a.example/ */</style>", []),
        (
            "<title>http://a.example/</title><!-- http://a.example/ --><template>http://a.example/</template>",
            [],
        ),
        ("<base href=http://b.example/>http://a.example/\x01x\x02y", ["http://a.example/"]),
        ("http://a.example:99999/ http://[ http://%/ ftp://a.example/f", ["ftp://a.example/f"]),
        ("HTTP://B\u00dcCHER.example/\u00e4.", ["http://xn--bcher-kva.example/%C3%A4"]),
        (
            "<script>'http://b.example/ www.c.example'</script>ht\xadtp:/\xad/a.example/",
            ["http://a.example/"],
        ),
        ("<style>/* www.b.example */</style>WWW.a.example", ["http://www.a.example/"]),
        (
            "<svg><script>://<style>://</style></script></svg><svg><style>www.<g>www.</g></style></svg>ftp://a.example",
            ["ftp://a.example/"],
        ),
        ("<frameset><frame src=a></frameset>", []),
        ("", []),
    ],
)
def test_addresses_in_the_text_are_found(markup: str, links: list[str]) -> None:
    assert written(markup) == links


def test_a_deep_page_is_read() -> None:
    assert written("<div>" * 5_000 + "http://a.example/deep") == ["http://a.example/deep"]
