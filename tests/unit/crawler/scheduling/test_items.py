"""Items in requests: restored exactly, and only from classes that are loaded."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass, field
from typing import Any

import attrs
import msgpack
import pytest
import scrapy
from hypothesis import given, strategies as st

from tests.cases import cases
from tests.unit.crawler.scheduling.test_requests import hashables, names, typed, values
from webcrawl.crawler.scheduling.values import pack, unpack
from webcrawl.errors import StoreError, Unserializable

HERE = __name__


class Offer(scrapy.Item):
    price = scrapy.Field()
    notes = scrapy.Field()


@dataclass
class Product:
    name: Any
    parts: Any = field(default_factory=list)
    size: Any = field(init=False, default=0)
    calls = 0

    def __post_init__(self) -> None:
        type(self).calls += 1
        self.label = f"product {self.name}"


@dataclass(frozen=True, slots=True)
class Key:
    text: Any

    class Inner(scrapy.Item):
        value = scrapy.Field()


@attrs.define
class Seller:
    name: Any
    _secret: Any = attrs.field(default=None, converter=repr)


@attrs.frozen
class Place:
    street: Any


@dataclass
class OddError(Exception):
    code: int


class Plain:
    """A class that is no item class."""


class OldDict(dict[str, int]):
    """A subclass of dict."""


def tell_apart(value: Any) -> Any:
    """A form of a value with items that compares their classes, fields and other attributes."""
    if isinstance(value, scrapy.Item):
        return type(value), tell_apart(dict(value))
    if dataclasses.is_dataclass(value) or attrs.has(type(value)):
        own = {
            name: getattr(value, name)
            for name in getattr(type(value), "__slots__", ())
            if name != "__weakref__"
        }
        return type(value), tell_apart(dict(sorted((own | getattr(value, "__dict__", {})).items())))
    if isinstance(value, dict):
        return dict, [(tell_apart(key), tell_apart(inner)) for key, inner in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [tell_apart(inner) for inner in value]
    return typed(value)


def offer(fields: dict[str, Any]) -> Offer:
    return Offer(**fields)


def product(name: Any, parts: Any, size: Any, other: Any) -> Product:
    made = Product(name, parts)
    made.size, made.label = size, other
    return made


keys = st.builds(Key, hashables) | st.builds(Place, hashables)
leaves = values | keys
parts = leaves | st.deferred(lambda: nested)
nested = st.one_of(
    st.builds(offer, st.dictionaries(st.sampled_from(["price", "notes"]), parts)),
    st.builds(product, parts, leaves, leaves, leaves),
    st.builds(Seller, parts, leaves),
    st.builds(lambda value: Key.Inner(value=value), parts),
    st.lists(parts, max_size=3),
    st.lists(parts, max_size=3).map(tuple),
    st.dictionaries(names | keys, parts, max_size=3),
)


@given(nested)
def test_items_are_restored_with_all_attributes(value: Any) -> None:
    assert tell_apart(unpack(pack(value))) == tell_apart(value)


def test_no_constructor_runs_again() -> None:
    data = pack(Product("tea"))
    before = Product.calls
    back = unpack(data)
    assert (back.label, Product.calls) == ("product tea", before)
    assert unpack(pack(Seller("a", "b")))._secret == "'b'"


def local_item() -> Any:
    @dataclass
    class Local:
        x: int = 0

    return Local()


@cases(
    ("value", "message"),
    [
        ({"meta": {"a": [Plain()]}}, f"meta['a'][] is a {HERE}.Plain: pass plain data, a scrapy.Item"),
        ({"meta": {"a": Plain()}}, f"meta['a'] is a {HERE}.Plain: "),
        ({"cb_kwargs": {"p": {1: Product("x", [Plain()])}}}, f"cb_kwargs['p'][].parts[] is a {HERE}.Plain: "),
        ({"cb_kwargs": {"p": {Plain(): 1}}}, f"cb_kwargs['p'][] is a {HERE}.Plain: "),
        ({"meta": {"o": Offer(price=Plain())}}, f"meta['o'].price is a {HERE}.Plain: "),
        ({"meta": {"d": OldDict(a=1)}}, f"meta['d'] is a {HERE}.OldDict: pass plain data"),
        (
            {"meta": {"l": local_item()}},
            "local_item.<locals>.Local, a class that is not defined at the top level of a module",
        ),
        ({"meta": {"e": OddError(1)}}, "object.__new__(OddError) is not safe"),
        ({"meta": {"c": Offer}}, "meta['c'] is a scrapy.item.ItemMeta: "),
    ],
)
def test_what_cannot_be_stored_is_named(value: Any, message: str) -> None:
    with pytest.raises(Unserializable) as raised:
        pack(value)
    assert message in str(raised.value)


def stored(module: Any, name: Any, fields: Any, others: Any = None) -> bytes:
    """A stored item with any class name and fields."""
    parts = [module, name, fields, {} if others is None else others]
    return bytes(msgpack.packb(msgpack.ExtType(7, pack(parts))))


@cases(
    ("module", "name"),
    [
        ("os", "system"),
        ("builtins", "eval"),
        ("builtins", "dict"),
        ("subprocess", "Popen"),
        ("scrapy", "Spider"),
        ("scrapy.item", "Item.__init__"),
        ("collections", "OrderedDict"),
        ("antigravity", "x"),
        ("", ""),
        (HERE, "Plain"),
        (HERE, "Product.missing"),
        (HERE, "product"),
        (None, "a"),
        (HERE, 5),
        ([], {}),
    ],
)
def test_only_loaded_item_classes_are_restored(module: Any, name: Any) -> None:
    before = set(sys.modules)
    with pytest.raises(StoreError, match="not an item class that the spider has imported|damaged"):
        unpack(stored(module, name, {}))
    assert set(sys.modules) == before


def test_a_module_with_a_getattr_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a function may import modules."""
    asked: list[str] = []
    monkeypatch.setattr(sys.modules[HERE], "__getattr__", asked.append, raising=False)
    with pytest.raises(StoreError):
        unpack(stored(HERE, "Unknown", {}))
    assert not asked


@cases("name", ["Offer", "Product", "Seller", "Key"])
def test_a_field_that_the_class_lacks_is_an_error_that_names_both(name: str) -> None:
    with pytest.raises(
        StoreError, match=f"{HERE}.{name} cannot be restored: the class has no field 'colour'"
    ):
        unpack(stored(HERE, name, {"colour": 1}))


@given(st.sampled_from(["Offer", "Product", "Key", "Seller", "OddError"]), values, values)
def test_damaged_items_give_an_item_or_a_store_error(name: str, fields: Any, others: Any) -> None:
    try:
        item = unpack(stored(HERE, name, fields, others))
    except StoreError:
        return
    assert type(item).__name__ == name
