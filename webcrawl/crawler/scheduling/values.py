"""Packs the values that requests carry as MessagePack, never as pickle.

The values are plain data and items: Scrapy items, dataclasses, attrs and pydantic classes, stored by class name and
fields. Stored data never causes an import. No constructor of a dataclass or attrs class runs: an instance is created
without the constructor and gets its fields and attributes back, as by `copy.copy`.
"""

from __future__ import annotations

import datetime
import decimal
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgpack
from itemadapter import ItemAdapter
from itemadapter.adapter import PydanticAdapter, ScrapyItemAdapter

from webcrawl.errors import StoreError, Unserializable

_EXTENSIONS: dict[int, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    # code: type, conversion to a type of MessagePack, conversion back
    1: (tuple, list, tuple),
    2: (set, list, set),
    3: (frozenset, list, frozenset),
    4: (datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    5: (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    6: (decimal.Decimal, str, decimal.Decimal),
    # integers of more than 64 bits
    8: (int, hex, partial(int, base=16)),
}
_ITEM = 7

_NAMED_LEVELS = 2
"""The levels that a message names: the attribute of a request, and the key in `meta` or `cb_kwargs`."""

_DEEPEST = 50
"""The most nested tuples, sets and items. The parser recurses on the C stack, which ends at about 200."""


_ADVICE = "pass plain data, a scrapy.Item, a dataclass, or an attrs or pydantic class"

_ItemParts = tuple[str, str, dict[str, Any], dict[str, Any]]
"""Module and qualified name of a class, and the values of an item's fields and of its other attributes by name."""


def pack(value: Any) -> bytes:
    """Packs plain data, tuples, sets, dates, decimals and items; raises Unserializable, which names the part."""
    try:
        return _pack(value, 0)
    except Unserializable as error:
        path, reason = _culprit(value)
        raise Unserializable(f"{path} {reason}" if path else reason or str(error)) from error


def unpack(data: bytes) -> Any:
    """Reverses `pack`; raises StoreError if the data is damaged or names a class that is not loaded."""
    try:
        return _unpack(data, 0)
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(f"a request in the frontier cannot be read: {error}") from error


def _pack(value: Any, depth: int) -> bytes:
    def encode(inner: Any) -> msgpack.ExtType | str:
        if isinstance(inner, str):  # CrawlSpider's link texts are of a subclass of lxml
            return str.__str__(inner)
        if depth >= _DEEPEST:
            raise TypeError(f"is nested more than {_DEEPEST} levels deep")
        for code, (kind, plain, _) in _EXTENSIONS.items():
            if type(inner) is kind:
                return msgpack.ExtType(code, _pack(plain(inner), depth + 1))
        return msgpack.ExtType(_ITEM, _pack(_take_apart(inner), depth + 1))

    try:
        return bytes(msgpack.packb(value, default=encode, strict_types=True))
    except (TypeError, ValueError, OverflowError) as error:
        raise Unserializable(str(error)) from error


def _unpack(data: bytes, depth: int) -> Any:
    def decode(code: int, inner: bytes) -> Any:
        if depth >= _DEEPEST or not (code in _EXTENSIONS or code == _ITEM):
            raise ValueError(f"extension type {code} at depth {depth}")
        plain = _unpack(inner, depth + 1)
        return _put_together(plain) if code == _ITEM else _EXTENSIONS[code][2](plain)

    return msgpack.unpackb(data, ext_hook=decode, strict_map_key=False)


def _culprit(value: Any, path: str = "", depth: int = 0) -> tuple[str, str]:
    """Returns the path of the first part of a record that cannot be packed, such as `meta['a'][].price`, and why.

    Indices and inner keys are left out, so that all elements of a container have one path.
    """
    for step, part in _parts(value) if depth < _DEEPEST else ():
        try:
            _pack(part, depth)
        except Unserializable:
            return _culprit(part, path + _step(value, step, depth), depth + 1)
    try:
        _pack(value, depth)
    except Unserializable as error:
        return path, str(error)
    return path, ""


def _step(value: Any, name: Any, depth: int) -> str:
    if isinstance(value, dict) and name is not None and depth < _NAMED_LEVELS:
        return f"[{name!r}]" if depth else str(name)
    return "[]" if name is None or isinstance(value, dict) else f".{name}"


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    """Yields the parts of a container or item, each after its key, its field or None."""
    if isinstance(value, dict):
        return [*((None, key) for key in value), *value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return ((None, inner) for inner in value)
    try:
        _, _, fields, others = _take_apart(value)
    except TypeError:
        return ()
    return (fields | others).items()


def _take_apart(item: Any) -> _ItemParts:
    """Returns the parts of an item; raises TypeError for any other object, or for a class without a global name."""
    kind = type(item)
    named = f"is a {kind.__module__}.{kind.__qualname__}"
    if not _is_item_class(kind):
        raise TypeError(f"{named}: {_ADVICE}")
    if _loaded(kind.__module__, kind.__qualname__) is not kind:
        raise TypeError(f"{named}, a class that is not defined at the top level of a module: move it there")
    fields = dict(ItemAdapter(item))
    others: dict[str, Any] = {}
    if not _has_constructor_of_its_own(kind):
        # raises TypeError for a class with a built-in base, such as an exception
        object.__new__(kind)
        others = {name: value for name, value in getattr(item, "__dict__", {}).items() if name not in fields}
    elif hasattr(kind, "model_construct"):
        others = {
            "set": list(item.model_fields_set),
            "extra": item.model_extra or {},
            "private": item.__pydantic_private__ or {},
        }
    return kind.__module__, kind.__qualname__, fields, others


def _put_together(parts: Any) -> Any:
    """Reverses `_take_apart`; raises StoreError if the class is not loaded, not an item class, or lacks a field."""
    try:
        module, name, fields, others = parts
        kind = _loaded(module, name)
    except (TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"an item in the frontier is damaged: {error}") from error
    if kind is None or not _is_item_class(kind):
        raise StoreError(
            f"{f'{module}.{name}'!r} is not an item class that the spider has imported; "
            "import it at the top of the spider's module"
        )
    try:
        return _instance(kind, fields, others)
    except Exception as error:  # also exceptions of a constructor
        raise StoreError(f"a stored {module}.{name} cannot be restored: {error}") from error


def _instance(kind: type, fields: dict[str, Any], others: dict[str, Any]) -> Any:
    known = ItemAdapter.get_field_names_from_class(kind) or ()
    if unknown := sorted(set(fields) - set(known)):
        raise ValueError(f"the class has no field {', '.join(map(repr, unknown))}")
    if ScrapyItemAdapter.is_item_class(kind):
        item = kind()
        item.update(fields)
        return item
    if PydanticAdapter.is_item_class(kind):
        return _model(kind, fields, others)
    item = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(item, name, value)
    if others:
        item.__dict__.update(others)
    return item


def _model(kind: Any, fields: dict[str, Any], others: dict[str, Any]) -> Any:
    """Returns a pydantic model without validation, which could refuse or convert values that were validated before."""
    if not others:  # a model of pydantic 1
        return kind.construct(**fields)
    model = kind.model_construct(set(others["set"]), **fields, **others["extra"])
    for name, value in others["private"].items():
        setattr(model, name, value)
    return model


def _is_item_class(kind: type) -> bool:
    return ItemAdapter.is_item_class(kind) and not issubclass(kind, dict)


def _has_constructor_of_its_own(kind: type) -> bool:
    return ScrapyItemAdapter.is_item_class(kind) or PydanticAdapter.is_item_class(kind)


def _loaded(module: str, name: str) -> type | None:
    """Returns a class if its module is loaded; reads only dicts, because the getattr of a module may import."""
    owner: Any = sys.modules.get(module)
    for part in name.split("."):
        owner = None if owner is None else vars(owner).get(part)
    return owner if isinstance(owner, type) else None
