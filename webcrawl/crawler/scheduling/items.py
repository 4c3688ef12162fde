"""Items in requests: Scrapy items, dataclasses, attrs and pydantic classes, stored by class name and fields.

Stored data never causes an import. No constructor of a dataclass or attrs class runs: an instance is created without
one and gets its fields and attributes back, as `copy.copy` does it.
"""

from __future__ import annotations

import sys
from typing import Any

from itemadapter import ItemAdapter
from itemadapter.adapter import PydanticAdapter, ScrapyItemAdapter

from webcrawl.errors import StoreError

_ADVICE = "pass plain data, a scrapy.Item, a dataclass, or an attrs or pydantic class"

Parts = tuple[str, str, dict[str, Any], dict[str, Any]]
"""Module and qualified name of a class, and the values of an item's fields and of its other attributes by name."""


def take_apart(item: Any) -> Parts:
    """The parts of an item; raises TypeError for any other object, or if the class cannot be found by its name."""
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


def put_together(parts: Any) -> Any:
    """The reverse of `take_apart`; raises StoreError if the class is not loaded, is no item class or lacks a field."""
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
    except Exception as error:  # also those of a constructor
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
    """A pydantic model, made without validation, which may refuse or convert what an earlier one has made."""
    if not others:  # of pydantic 1
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
    """A class by its names, if its module is loaded; looks only into dicts, because a module's getattr may import."""
    owner: Any = sys.modules.get(module)
    for part in name.split("."):
        owner = None if owner is None else vars(owner).get(part)
    return owner if isinstance(owner, type) else None
