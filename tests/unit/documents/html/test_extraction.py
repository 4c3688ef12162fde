"""Fields of pages by the rules of EXTRACT: selectors, types, what is missing, and mistakes in the rules."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.config.declared import DECLARED
from webcrawl.config.extraction import extract_rules
from webcrawl.documents.document import Document
from webcrawl.documents.html.extraction import Extracted, Extraction, extracted, is_extracted, problems_of
from webcrawl.documents.html.field_values import converted, flat
from webcrawl.documents.html.outline import make_outline, pack, unpack
from webcrawl.errors import ConfigurationError

EXTRACT = DECLARED["EXTRACT"]
URL = "http://shop.example/product/7"
PAGE = """<html><head><meta property="og:title" content="From OG"><meta name=rating content="4,5">
<script type="application/ld+json">{"@context": "https://schema.org", "@graph": [
{"@type": "WebPage", "name": "The page"},
{"@type": ["Thing", "Product"], "name": "From JSON-LD", "releaseDate": "2031-05-01T10:00:00+02:00",
 "offers": [{"@type": "Offer", "price": 1299.5, "inStock": true}]}]}</script></head>
<body><h1> A   <b>lamp</b> </h1><p class=price>1.299,50 &euro;</p><span class=sold></span>
<ul><li>red<li><li>blue</ul><a class=more href="/more" data-id=17>more</a>
<div itemscope itemtype="https://schema.org/Product"><span itemprop=color>green</span></div>
<div vocab="https://schema.org/" typeof=Person><i property=name>Ann</i></div></body></html>"""


def rules(**fields: Any) -> list[Any]:
    return extract_rules(EXTRACT.parse({"name": "products", "match": "/product/", "fields": fields}))


def fields_of(markup: str, **fields: Any) -> Extracted:
    document = Document(markup.encode(), "text/html", "utf-8", URL)
    return extracted(document, Extraction(rules(**fields)).wanted(URL))


@cases(
    ("kind", "select", "value"),
    [
        ("str", "css:h1", "A lamp"),
        ("str", "css:h1::text", "A"),
        ("int", "css:a.more::attr(data-id)", 17),
        ("float", "css:.price", 1299.5),
        ("list", "css:li", ["red", "blue"]),
        ("bool", "css:.sold", True),
        ("bool", "css:.nowhere", False),
        ("str", "xpath://a[re:test(@class, '^mo')]/@href", "/more"),
        ("int", "xpath:count(//li)", 3),
        ("str", "xpath:count(//li)", "3"),
        ("str", "xpath://h1", "A lamp"),
        ("float", "jsonld:offers.price", 1299.5),
        ("bool", "jsonld:Product.offers.inStock", True),
        ("date", "jsonld:Product.releaseDate", datetime(2031, 5, 1, 8, tzinfo=UTC)),
        ("str", "jsonld:WebPage.name", "The page"),
        ("str", "jsonld:Product.name", "From JSON-LD"),
        ("str", "microdata:Product.color", "green"),
        ("str", "rdfa:name", "Ann"),
        ("str", "og:title", "From OG"),
        ("float", "meta:rating", 4.5),
        ("str", ["css:.nowhere", "microdata:nothing", "og:title"], "From OG"),
    ],
)
def test_each_source_and_type(kind: str, select: Any, value: Any) -> None:
    page = fields_of(PAGE, field={"type": kind, "select": select})
    assert page == Extracted({"field": value}, {})
    assert type(page.values["field"]) is type(value)


@cases(
    ("text", "number"),
    [
        ("1299", 1299.0),
        ("$ 1,299.00", 1299.0),
        ("1 299,5 kr", 1299.5),
        ("1\u202f299,50\u00a0€", 1299.5),
        ("1'299.50", 1299.5),
        ("12,50", 12.5),
        ("1,250", 1250.0),
        ("1.234", 1.234),
        ("1.234.567", 1234567.0),
        ("\u22125 °C", -5.0),
        ("2e3", 2000.0),
        ("call us", None),
        ("9" * 400, None),
    ],
)
def test_numbers_as_people_write_them(text: str, number: float | None) -> None:
    assert converted([text], "float") == number


@cases(("text", "number"), [("1,250 items", 1250), ("1.5", None), (2.0, 2), (True, None)])
def test_whole_numbers(text: Any, number: int | None) -> None:
    assert converted([text], "int") == number


def test_what_is_missing_or_of_another_type_is_told_unless_it_is_optional() -> None:
    fields = {
        "price": {"type": "float", "select": "css:h1"},
        "sku": "css:.sku",
        "size": {"select": "css:.size", "optional": True},
        "name": "css:h1",
    }
    page = fields_of(PAGE, **fields)
    lacking, problems = problems_of(rules(**fields), page)
    assert page.values == {"name": "A lamp"} and lacking == {"price", "sku", "size"}
    assert problems == ["products: price is no float: 'A lamp'", "products: sku is missing"]


def test_rules_count_for_the_urls_that_they_match() -> None:
    several = [
        {"match": r"/product/\d+$", "fields": {"price": "css:.price"}},
        {"match": r"shop\.", "fields": {"title": "css:h1"}},
    ]
    extraction = Extraction(extract_rules(EXTRACT.parse(several)))
    assert extraction.wanted("http://other.example/") == ""
    assert [rule.name for rule in extraction.rules_of(URL)] == ["1", "2"]
    document = Document(PAGE.encode(), "text/html", "utf-8", URL)
    assert set(extracted(document, extraction.wanted(URL)).values) == {"price", "title"}


@cases(
    ("value", "message"),
    [
        (
            5,
            "EXTRACT must be a list of rules with `match` and `fields`, or the name of a YAML file with them, not 5",
        ),
        ([5], "EXTRACT, rule 1: 5 is no dict"),
        ({"match": "x"}, "EXTRACT, rule 1 has no 'fields'"),
        ({"match": "(", "fields": {"a": "css:a"}}, "EXTRACT, rule '1': '(' is not a regular expression"),
        ({"match": "x", "fields": {}}, "EXTRACT, rule '1': fields must be a dict"),
        ({"match": "x", "fields": {"a-b": "css:a"}}, "rule '1', field 'a-b': a name has only letters"),
        (
            {"match": "x", "fields": {"a": "a.b"}},
            "rule '1', field 'a': 'a.b' is no selector; it begins with one of css:",
        ),
        ({"match": "x", "fields": {"a": "css:"}}, "rule '1', field 'a': 'css:' is no selector"),
        ({"match": "x", "fields": {"a": []}}, "rule '1', field 'a': [] is neither a selector nor a list"),
        ({"match": "x", "fields": {"a": {"type": "str"}}}, "rule '1', field 'a' has no 'select'"),
        ({"match": "x", "fields": {"a": {"select": "css:a", "kind": 1}}}, "field 'a': 'kind' is none of"),
        (
            {"name": "shop", "match": "x", "fields": {"a": {"select": "css:a", "type": "money"}}},
            "EXTRACT, rule 'shop', field 'a': type must be str, int, float, date, bool or list, not 'money'",
        ),
        (
            [
                {"match": "x", "fields": {"a": "css:a"}},
                {"match": "y", "fields": {"a": {"select": "css:a", "type": "int"}}},
            ],
            "EXTRACT, rule '2', field 'a': it has type int here, and str in rule '1'",
        ),
        ("missing.yaml", "EXTRACT, missing.yaml cannot be read: [Errno 2]"),
    ],
)
def test_a_mistake_names_its_rule(value: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        EXTRACT.parse(value)
    assert message in str(refused.value)


@cases("selector", ["css:p[", "css:p::before", "xpath://p[", "xpath:no-such()", "jsonld:a..b"])
def test_a_selector_that_cannot_be_parsed_names_its_rule(selector: str) -> None:
    with pytest.raises(
        ConfigurationError, match="EXTRACT, rule 'products', field 'price': '.*' cannot be used"
    ):
        Extraction(rules(price=selector))


def test_rules_in_a_yaml_file(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("- name: shop\n  match: /p/\n  fields:\n    price: {type: float, select: [css:.price]}\n")
    (rule,) = extract_rules(EXTRACT.parse(str(file)))
    assert EXTRACT.parse(f"@{file}") == EXTRACT.parse(str(file))
    assert (rule.name, rule.fields[0].type, str(rule.fields[0].selectors[0])) == (
        "shop",
        "float",
        "css:.price",
    )
    file.write_text("- name: [")
    with pytest.raises(ConfigurationError, match=r"EXTRACT, .*shop\.yaml cannot be read: while parsing"):
        EXTRACT.parse(str(file))


def test_fields_pass_between_processes_and_others_are_refused() -> None:
    document = Document(PAGE.encode(), "text/html", "utf-8", URL)
    wanted = Extraction(
        rules(when={"type": "date", "select": "jsonld:releaseDate"}, bad={"type": "int", "select": "css:h1"})
    ).wanted(URL)
    made = make_outline(document, facts=True, simhash=False, extract=wanted, structured=True)
    assert made.extracted is not None and set(made.extracted.values) == {"when"} and made.extracted.refused
    read = unpack(pack(made), document)
    assert (read.extracted, read.structured) == (made.extracted, made.structured)
    for wrong in (
        Extracted({"a": {}}, {}),
        Extracted({1: "a"}, {}),
        Extracted([], {}),
        Extracted({}, {"a": "x" * 99}),
    ):  # type: ignore[dict-item, arg-type]
        assert not is_extracted(wrong)


def test_pages_cannot_make_extraction_costly() -> None:
    """Nested matches repeat their texts, and a list has a bound."""
    nested = "<div class=x>" + "word " * 200
    page = fields_of(nested * 400, all={"type": "list", "select": "css:.x"}, last="xpath://div[last()]")
    assert sum(map(len, page.values["all"])) <= 4_100_000
    assert len(page.values["last"]) <= 10_000
    many = fields_of("<i>a</i>" * 5_000, all={"type": "list", "select": "css:i"})
    assert len(many.values["all"]) == 1_000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "url", "x"]), inner, max_size=2)
    ),
    max_leaves=8,
)


@given(st.lists(json_values, max_size=4), st.sampled_from(["str", "int", "float", "date", "bool", "list"]))
def test_any_value_becomes_a_value_of_its_type_or_none(values: list[Any], kind: str) -> None:
    types = {"str": str, "int": int, "float": float, "date": datetime, "bool": bool, "list": list}
    value = converted(flat(values), kind)
    assert value is None or type(value) is types[kind]
    assert value is None or is_extracted(Extracted({"a": value}, {}))
