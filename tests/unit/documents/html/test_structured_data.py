"""Structured data of pages: JSON-LD, microdata, RDFa and Open Graph, also of pages that mean harm."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings, strategies as st

from tests.cases import cases
from webcrawl.documents.document import Document
from webcrawl.documents.html.structured_data import MOST_CHARS, StructuredData, is_structured

URL = "http://a.example/folder/page"


def data_of(markup: str) -> dict[str, Any]:
    return StructuredData(Document(markup.encode(), "text/html", "utf-8", URL)).as_dict()


def script(text: str) -> str:
    return f"<script type='application/ld+json'>{text}</script>"


def test_json_ld_has_its_objects_without_vocabularies() -> None:
    graph = {
        "@type": "http://schema.org/Product",
        "schema:name": {"@value": "A", "@language": "en"},
        "empty": "",
    }
    written = [
        {"@context": "https://schema.org", "@graph": [graph, {"@id": "#only"}]},
        {"@type": "Offer", "price": 2},
    ]
    assert data_of(script(json.dumps(written)))["json_ld"] == [
        {"@type": "Product", "name": "A"},
        {"@type": "Offer", "price": 2},
    ]


@cases(
    ("element", "value"),
    [
        ('<a itemprop=p href="/a" content=x>text</a>', "http://a.example/a"),
        ("<a itemprop=p>text</a>", None),
        ("<img itemprop=p>", None),
        ('<img itemprop=p src="">', URL),
        ('<meta itemprop=p content="1">', "1"),
        ("<data itemprop=p value=5>five</data>", "5"),
        ("<data itemprop=p>five</data>", None),
        ("<meter itemprop=p value=5 content=6>five</meter>", "5"),
        ("<time itemprop=p datetime=2026-02-03 content=x>today</time>", "2026-02-03"),
        ("<time itemprop=p>2026-02-03</time>", "2026-02-03"),
        ('<time itemprop=p datetime="">today</time>', None),
        ("<b itemprop=p content=5>five</b>", "5"),
        ("<b itemprop=p>five<script>x</script></b>", "fivex"),
    ],
)
def test_values_of_microdata_are_those_of_the_html_standard(element: str, value: str | None) -> None:
    items = data_of(f"<div itemscope>{element}<i itemprop=q>1</i></div>").get("microdata")
    assert items == [{"q": "1"} if value is None else {"p": value, "q": "1"}]


@cases("text", ["{", "", "[1, 2, null]", '{"a": }', "[" * 100_000, "// no JSON", '"text"'])
def test_scripts_that_are_not_json_ld_have_nothing(text: str) -> None:
    assert data_of(script(text) + script('{"@type": "A", "name": "b"}')) == {
        "json_ld": [{"@type": "A", "name": "b"}]
    }


def test_microdata_follows_the_standard() -> None:
    markup = """<base href="/base/"><div itemscope itemtype="https://schema.org/Movie" itemref="more none" itemid="/id">
    <h1 itemprop="name">A <b>film</b></h1><img itemprop=image src=poster.png><meta itemprop=duration content=PT2H>
    <div itemprop="director" itemscope itemtype="https://schema.org/Person"><span itemprop=name>Ann</span></div>
    <time itemprop=dateCreated datetime=2024-05-01>May</time><a itemprop="url sameAs" href="x">x</a></div>
    <div id=more><i itemprop=genre>a</i><i itemprop=genre>b</i><div itemscope><u itemprop=own>1</u></div></div>
    <p itemprop=loose>belongs to nothing</p>"""
    assert data_of(markup)["microdata"] == [
        {
            "@type": "Movie",
            "@id": "http://a.example/id",
            "name": "A film",
            "image": "http://a.example/base/poster.png",
            "duration": "PT2H",
            "director": {"@type": "Person", "name": "Ann"},
            "dateCreated": "2024-05-01",
            "url": "http://a.example/base/x",
            "sameAs": "http://a.example/base/x",
            "genre": ["a", "b"],
        },
        {"own": "1"},
    ]


def test_microdata_that_is_a_property_of_nothing_is_an_item_unless_itemref_names_it() -> None:
    """Authors of articles are often marked so; by the HTML Standard, they are part of no item."""
    author = (
        "<p id={} itemprop=author itemscope itemtype=https://schema.org/Person><b itemprop=name>{}</b></p>"
    )
    markup = author.format("ann", "Ann") + author.format("bob", "Bob") + "<p itemscope itemref=bob>"
    bob = {"@type": "Person", "name": "Bob"}
    assert data_of(markup)["microdata"] == [{"@type": "Person", "name": "Ann"}, {"author": bob}]


def test_rdfa_lite_and_open_graph() -> None:
    markup = """<meta property="og:image" content=1><meta property="og:image" content=2><meta name=author content=x>
    <meta property="product:price:amount" content="5"><div vocab="http://schema.org/" typeof="Product" resource="#p">
    <span property="name">P</span><div property="offers" typeof="Offer"><b property=price content=5>$5</b></div>
    <a property=url href="/p">p</a></div>"""
    assert data_of(markup) == {
        "open_graph": {"og:image": ["1", "2"], "product:price:amount": "5"},
        "rdfa": [
            {
                "@type": "Product",
                "@id": "http://a.example/folder/page#p",
                "name": "P",
                "offers": {"@type": "Offer", "price": "5"},
                "url": "http://a.example/p",
            }
        ],
    }


def test_a_page_without_structured_data_has_none() -> None:
    assert data_of("<p>text<script type='text/javascript'>{}</script>") == {}


CYCLE = (
    "<div id=a itemscope itemref=b></div><div id=b itemprop=p itemscope itemref=c></div>"
    "<div id=c itemprop=q itemscope itemref=b></div>"
)
HOSTILE = {
    "large JSON-LD": script(json.dumps({"@type": "A", "x": ["y" * 50] * 200_000})),
    "deep JSON-LD": script('{"@type": "A", "x": ' + '{"x": ' * 900 + "1" + "}" * 901),
    "many scripts": script('{"@type": "A", "name": "b"}') * 2_000,
    "wide objects": script(json.dumps([{"@type": "A", f"x{n}": "y" * 4_000} for n in range(60)])) * 20,
    "cycles of itemref": CYCLE,
    "itemref of all": "<i id=x>"
    + "<b itemprop=p>a</b>" * 3_000
    + "</i>"
    + "<u itemscope itemref=x></u>" * 3_000,
    "itemref of large elements": "<div id=z>"
    + "<p>" * 50_000
    + "</div>"
    + f"<i itemscope itemref='{'z ' * 100}'></i>" * 4_000,
    "nested items": "<div itemscope itemprop=a>" * 3_000,
    "nested properties": "<div itemscope>" + "<p><b itemprop=a>" * 1_500 + "word " * 20_000,
    "nested RDFa": "<div typeof=A property=b>" * 3_000,
    "many metas": "".join(f'<meta property="og:x{n}" content="{"y" * 300}">' for n in range(5_000)),
}


@cases("name", HOSTILE)
def test_hostile_pages_are_bounded(name: str) -> None:
    data = data_of(HOSTILE[name])
    assert len(json.dumps(data)) <= 2 * MOST_CHARS and is_structured(data)


def test_a_cycle_of_items_ends_where_it_closes() -> None:
    inner = "<div id=a itemscope itemref=b>x</div><div id=b itemprop=p itemscope itemref='c'><i itemprop=n>1</i></div>"
    assert data_of(f"{inner}<div id=c itemprop=q itemscope itemref=b></div>")["microdata"] == [
        {"p": {"n": "1"}}
    ]


names = st.sampled_from(
    ["itemscope", "itemprop=a", "itemref=x", "itemref='y x'", "id=x", "id=y", "typeof=T", "property=p"]
)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.lists(names, max_size=4), st.booleans()), max_size=12))
def test_any_nesting_ends_and_is_json(elements: list[tuple[list[str], bool]]) -> None:
    markup = "".join(f"<div {' '.join(attributes)}>t{'</div>' * closed}" for attributes, closed in elements)
    assert is_structured(json.loads(json.dumps(data_of(markup))))
