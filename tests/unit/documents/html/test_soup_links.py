"""Stored links of generated pages, and of real ones, are those that BeautifulSoup finds."""

from __future__ import annotations

from html import escape

import pytest
from hypothesis import given, settings, strategies as st

from benchmarks.links import documents
from benchmarks.sites import SITES
from tests.documents.soup_links import differing, links_by_soup, links_of_the_store
from webcrawl.demo import demo_pages
from webcrawl.documents.document import Document

URL = "http://example.org/folder/page"
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=12)
# urllib joins as browsers do here, but drops an empty query
PLACES = [
    "/",
    "b",
    "../c?q=1",
    "",
    "#part",
    "d#part",
    "//other.example/",
    "https://www.example.org/x y",
    "mailto:a@b",
]
ADDRESSES = st.sampled_from(PLACES) | st.text("abcé ü/1-", max_size=9).map(lambda text: f"/a{text}")
RELS = st.sampled_from(["", "nofollow", "NoFollow UGC", "next", "stylesheet alternate", "canonical"])


def attribute(name: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.just("") | values.map(lambda value: f' {name}="{escape(value)}"')


def element(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map("".join)


def start(name: str, address: str, *others: st.SearchStrategy[str]) -> list[st.SearchStrategy[str]]:
    return [st.just(f"<{name}"), attribute(address, ADDRESSES), attribute("rel", RELS), *others, st.just(">")]


IMAGE = element(st.just("<img src=x"), attribute("alt", WORDS), st.just(">"))
BLOCKS = WORDS.map(lambda text: f"<h3>{escape(text)}</h3><p>{escape(text)}<br>{escape(text)}</p>")
INSIDE = WORDS.map(escape) | IMAGE | BLOCKS | WORDS.map(lambda text: f"<b>{escape(text)}</b>")
LINK = (
    element(*start("a", "href"), INSIDE, INSIDE, st.just("</a>"))
    | element(*start("area", "href", attribute("alt", WORDS)))
    | element(st.just("<svg>"), *start("a", "xlink:href"), WORDS.map(escape), st.just("</a></svg>"))
    | element(*start("iframe", "src", attribute("title", WORDS)), st.just("</iframe>"))
)
HEAD = st.lists(element(*start("link", "href", attribute("title", WORDS))), max_size=3).map("".join)
BASE = st.sampled_from(["", "<base href=/other/>", "<base href=//elsewhere.example/a/b>"])
CONTENT = st.recursive(
    LINK | WORDS.map(escape),
    lambda inner: st.tuples(
        st.sampled_from(["div", "section", "ul", "table"]), st.lists(inner, max_size=4)
    ).map(
        lambda made: {
            "ul": "<ul>" + "".join(f"<li>{one}</li>" for one in made[1]) + "</ul>",
            "table": "<table><tbody>"
            + "".join(f"<tr><td>{one}</td></tr>" for one in made[1])
            + "</tbody></table>",
        }.get(made[0], f"<{made[0]}>{''.join(made[1])}</{made[0]}>")
    ),
    max_leaves=12,
)


@settings(max_examples=60)
@given(BASE, HEAD, st.lists(CONTENT, max_size=5))
def test_generated_pages_have_the_links_that_another_parser_finds(
    base: str, head: str, body: list[str]
) -> None:
    markup = f"<!doctype html><html><head>{base}{head}</head><body>{''.join(body)}</body></html>"
    page = Document(markup.encode("utf-8", "replace"), "text/html", "utf-8", URL)
    assert links_of_the_store(page) == links_by_soup(page)


@pytest.mark.slow
def test_real_pages_have_the_links_that_another_parser_finds() -> None:
    if not any(site.there for site in SITES):
        pytest.skip("no documentation is installed")
    links, different = differing(documents(400), 100)
    assert links > 1_000 and different == []


def test_a_page_with_other_links_is_named() -> None:
    served = demo_pages(0, ["http://a.example", "http://b.example", "http://c.example"])
    markup = [one.body for one in served.values() if one.mime_type.startswith("text/html")]
    pages = [Document(body, "text/html", "utf-8", f"{URL}{number}") for number, body in enumerate(markup)]
    links, different = differing(pages, 1_000)
    assert links > len(pages) > 20 and different == []
    # lxml leaves links of a table in it, which browsers put before it
    odd = Document(b"<p><a href=/y>y<table><a href=/z>z</table>", "text/html", "utf-8", URL)
    assert differing([odd], 1)[1] == [URL]
