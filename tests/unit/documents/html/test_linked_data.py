"""JSON-LD of pages, which may hold any JSON."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.documents.html.linked_data import (
    MAX_ALL_BYTES,
    MAX_BYTES,
    MAX_CHARS,
    MAX_OBJECTS,
    MAX_VALUES,
    first_text,
    linked_objects,
)


def one(**properties: Any) -> dict[str, Any]:
    [linked_object] = linked_objects([json.dumps({"@type": "Article", **properties})])
    return linked_object


def test_known_properties_are_kept() -> None:
    assert one(
        headline=" A\nheadline ",
        author=[{"@type": "Person", "name": "Ada"}, "Grace"],
        image={"@type": "ImageObject", "url": "/a.png"},
        datePublished="2024-05-17",
        offers={"price": 9.5, "priceCurrency": "EUR"},
        aggregateRating={"ratingValue": "4.5", "reviewCount": 12},
        articleBody="too long to be kept",
        isbn=None,
        wordCount=5,
    ) == {
        "type": "Article",
        "headline": "A headline",
        "author": ["Ada", "Grace"],
        "image": "/a.png",
        "datePublished": "2024-05-17",
        "offers": 9.5,
        "aggregateRating": "4.5",
    }


def test_objects_are_found_at_top_level_in_lists_and_in_graphs() -> None:
    scripts = [
        '[{"@type": "A"}, {"name": "no type"}, {"@graph": [{"@type": ["B", "https://schema.org/C"]}, 5, null]}]',
        '<!-- {"@type": "D", "@graph": {"@type": "E"}} -->',
        '//<![CDATA[\n{"@type": "F"}\n//]]>',
        '{"@type": "A"}',
    ]
    assert [linked_object["type"] for linked_object in linked_objects(scripts)] == [
        "A",
        ["B", "C"],
        "D",
        "E",
        "F",
    ]


@cases(
    "script",
    [
        '{"@type": "A", "name": "b",}',
        '{"@type": ["A",\n], "name": "b", /* c */ }',
        '{"@type": "A", // it says "c"\n "name": "b"}',
        '{"@type": "A", "name": "b"};',
        '\ufeff{"@type": "A", "name": "b"}',
        "{&quot;@type&quot;: &quot;A&quot;, &quot;name&quot;: &quot;b&quot;}",
    ],
)
def test_json_with_mistakes_of_people_is_read(script: str) -> None:
    assert linked_objects([script]) == [{"type": "A", "name": "b"}]


def test_strings_keep_what_looks_like_mistakes() -> None:
    script = r'{"@type": "A", "url": "http://a/ /* b */", "name": "it\'s \u00e9, ]\" // c \x",}'
    assert linked_objects([script]) == [
        {"type": "A", "name": "it's \u00e9, ]\" // c x", "url": "http://a/ /* b */"}
    ]


def test_several_values_in_a_script_are_read() -> None:
    script = '{"@type": "A"}, {"@type": "B"}\n{"@type": "C"}'
    assert [linked_object["type"] for linked_object in linked_objects([script])] == ["A", "B", "C"]


def test_a_reference_has_the_name_of_its_object() -> None:
    scripts = [
        '{"@type": "A", "author": [{"@id": "#b"}, {"@id": "#c"}]}',
        '{"@graph": [{"@type": "B", "@id": "#b", "name": "Ada"}]}',
    ]
    assert linked_objects(scripts)[0] == {"type": "A", "author": ["Ada", "#c"]}


@cases(
    "script",
    [
        "",
        "{",
        "not JSON",
        "[" * 200_000,
        '{"@type": ' * 50_000,
        '{"@type": "A", "name": ' + "9" * 10_000 + "}",
        '{"@type": "A"}' + " " * MAX_BYTES,
        '{"@type": 5}',
        '{"@type": ""}',
        '{"@type": ["https://schema.org/", " "]}',
        '{"@type": {"@type": "A"}}',
        "5",
        "null",
    ],
)
def test_invalid_json_ld_gives_no_objects(script: str) -> None:
    assert [
        linked_object for linked_object in linked_objects([script]) if linked_object != {"type": "A"}
    ] == []


@cases("part", ['"' + '\\"' * 125_000, "/* " * 80_000, '"' + "\\" * 250_001, "//" * 125_000])
def test_what_is_not_closed_is_read_once(part: str) -> None:
    assert linked_objects(['{"@type": "A", ' + part]) == []


def test_a_comment_that_is_not_closed_goes_on_to_the_end() -> None:
    assert linked_objects(['{"@type": "A"} /* not closed']) == [{"type": "A"}]


def test_the_scripts_of_a_page_are_read_up_to_a_limit() -> None:
    script = "{" + " " * (MAX_BYTES - 1)
    few, many = [script] * (MAX_ALL_BYTES // MAX_BYTES - 1), [script] * (MAX_ALL_BYTES // MAX_BYTES)
    assert linked_objects([*few, '{"@type": "A"}']) == [{"type": "A"}]
    assert linked_objects([*many, '{"@type": "A"}']) == []
    too_long = [script + " "] * 10  # are not read
    assert linked_objects([*too_long, '{"@type": "A"}']) == [{"type": "A"}]


def test_objects_and_values_are_bounded() -> None:
    long = {name: ["x" * 1_000] * 10 for name in ("headline", "author", "keywords", "url")}
    objects = linked_objects([json.dumps([{"@type": f"T{number}", **long} for number in range(5)])] * 50)
    assert len(objects) == 5
    assert {len(linked_object["author"]) for linked_object in objects} == {MAX_VALUES}
    assert max(len(text) for linked_object in objects for text in linked_object["author"]) == MAX_CHARS
    assert len(linked_objects([json.dumps([{"@type": str(number)} for number in range(100)])])) == MAX_OBJECTS


def test_values_that_databases_reject_are_replaced() -> None:
    assert one(name="a\0b\ud800c", headline=float("nan"))["name"] == "a\ufffdb?c"
    assert "headline" not in one(headline=float("inf"))


def test_first_text_returns_the_first_string() -> None:
    objects = [{"type": "A", "name": 5}, {"type": "B", "name": ["x", "y"], "url": "z"}]
    assert first_text(objects, "name", "url") == "x"
    assert first_text(objects, "headline") is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["@type", "@graph", "name", "author", "image", "x"]), inner, max_size=5
        )
    ),
    max_leaves=25,
)


@given(ANYTHING)
def test_any_json_gives_valid_objects(value: Any) -> None:
    for linked_object in linked_objects([json.dumps(value)]):
        assert linked_object["type"]
        assert json.loads(json.dumps(linked_object, allow_nan=False)) == linked_object
