"""Schemas of items: dataclasses and JSON Schemas."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.alarms.item_schema import item_check
from webcrawl.errors import ConfigurationError


class Size(Enum):
    SMALL = "s"


@dataclass
class Seller:
    name: str
    rating: float | None = None


@dataclass
class Product:
    name: str
    price: float
    stock: int = 0
    tags: list[str] = field(default_factory=list)
    seller: Seller | None = None
    seen: Optional[datetime] = None  # noqa: UP045
    place: tuple[float, float] | None = None
    facts: dict[str, int | str] = field(default_factory=dict)
    kind: Literal["new", "used", 1] = "new"
    note: Annotated[Union[str, None], "free text"] = None  # noqa: UP007
    more: Any = None
    size: Size = Size.SMALL


FULL = {
    "name": "Ball",
    "price": 3,
    "stock": 7,
    "tags": ["red"],
    "seller": {"name": "Eve", "rating": 4.5},
    "seen": datetime(2026, 1, 1),
    "place": [1.5, 2],
    "facts": {"age": 3, "of": "x"},
    "kind": 1,
    "note": None,
    "more": {"any": list(range(3))},
    "size": Size.SMALL,
}
CHECK = item_check("Product", Product)


def test_an_item_as_its_dataclass_says_passes() -> None:
    assert CHECK(FULL) == CHECK({"name": "Ball", "price": 1.5}) == []


@cases(
    ("changes", "problem"),
    [
        ({"price": "3"}, "Product.price: float expected, str found ('3')"),
        ({"price": True}, "Product.price: float expected, bool found (True)"),
        ({"stock": 1.0}, "Product.stock: int expected, float found (1.0)"),
        ({"stock": True}, "Product.stock: int expected, bool found (True)"),
        ({"name": None}, "Product.name: str expected, NoneType found (None)"),
        ({"colour": "red"}, "Product.colour is not in the schema"),
        ({"tags": ["red", 3]}, "Product.tags[1]: str expected, int found (3)"),
        ({"tags": "red"}, "Product.tags: list[str] expected, str found ('red')"),
        ({"seller": {"rating": 3}}, "Product.seller: Seller or None expected, dict found ({'rating': 3})"),
        ({"seen": date(2026, 1, 1)}, "Product.seen: datetime or None expected, date found "),
        ({"place": [1.0]}, "Product.place: tuple[float, float] or None expected, list found ([1.0])"),
        ({"facts": {"age": 1.5}}, "Product.facts.age: int or str expected, float found (1.5)"),
        ({"facts": {3: 1}}, "key of Product.facts: str expected, int found (3)"),
        ({"kind": "old"}, "Product.kind: Literal['new', 'used', 1] expected, str found ('old')"),
        ({"kind": True}, "Product.kind: Literal['new', 'used', 1] expected, bool found (True)"),
        ({"size": "s"}, "Product.size: Size expected, str found ('s')"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], problem: str) -> None:
    (found,) = CHECK(FULL | changes)
    assert found.startswith(problem)


def test_missing_fields_are_named_and_problems_are_bounded() -> None:
    assert CHECK({}) == ["Product.name is missing", "Product.price is missing"]
    many = CHECK({"name": "x", "price": 1, **{f"f{number}": 1 for number in range(1000)}})
    assert len(many) == 5


def test_types_that_cannot_be_checked_are_refused() -> None:
    made = dataclasses.make_dataclass("Odd", [("value", "list[undefined]")])
    with pytest.raises(
        ConfigurationError, match=r"item_schemas\['Odd'\]: the types of Odd .*name 'undefined'"
    ):
        item_check("Odd", made)
    other = dataclasses.make_dataclass("Odd", [("value", type(Any))])
    assert item_check("Odd", other)
    for wrong in (3, "Product", dict, None):
        with pytest.raises(ConfigurationError, match=r"item_schemas\['Odd'\]: a dataclass or a JSON Schema"):
            item_check("Odd", wrong)


def test_json_schemas_are_checked_and_closed() -> None:
    schema = {"properties": {"price": {"type": "number"}, "seen": {"type": "string"}}, "required": ["price"]}
    check = item_check("Offer", schema)
    assert check({"price": 3, "seen": datetime(2026, 1, 1)}) == []
    assert check({"price": "3"}) == ["Offer.price: '3' is not of type 'number'"]
    assert check({}) == ["Offer: 'price' is a required property"]
    (unexpected,) = check({"price": 3, "colour": "red"})
    assert "'colour' was unexpected" in unexpected
    assert item_check("Offer", schema | {"additionalProperties": True})({"price": 3, "colour": 1}) == []
    assert "additionalProperties" not in schema, "the spider's own schema is not changed"


def test_a_wrong_json_schema_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"item_schemas\['Offer'\] is not a JSON Schema: type: 'float'"
    ):
        item_check("Offer", {"type": "float"})


def test_no_schema_is_fetched_from_another_server() -> None:
    check = item_check("Offer", {"properties": {"price": {"$ref": "http://127.0.0.1:9/schema.json"}}})
    with pytest.raises(Exception, match="Unresolvable"):
        check({"price": 3})


@given(
    st.dictionaries(
        st.sampled_from(["name", "price", "stock"]), st.one_of(st.text(), st.integers(), st.floats())
    )
)
def test_items_pass_exactly_when_their_types_fit(item: Mapping[str, Any]) -> None:
    fits = (
        isinstance(item.get("name"), str)
        and isinstance(item.get("price"), int | float)
        and isinstance(item.get("stock", 0), int)
    )
    assert (CHECK(item) == []) == fits


def test_abstract_collections_are_checked() -> None:
    made = dataclasses.make_dataclass("Many", [("values", Sequence[int]), ("names", Mapping[str, Decimal])])
    check = item_check("Many", made)
    assert check({"values": (1, 2), "names": {"a": Decimal(1)}}) == []
    assert len(check({"values": [1.5], "names": {"a": 1}})) == 2
