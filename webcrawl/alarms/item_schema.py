"""Checks items against the schema that their spider declares: a dataclass or a JSON Schema."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from webcrawl.config.libraries import optional
from webcrawl.documents.values import plain
from webcrawl.errors import ConfigurationError

ItemCheck = Callable[[Mapping[str, Any]], list[str]]
"""Returns a text for each problem of an item's fields; an empty list for a valid item."""
_Check = Callable[[Any, str], Iterator[str]]
"""Yields the problems of a value; the second argument is the path of the value in the item."""

_MOST_PROBLEMS = 5
_CLOSING = ("additionalProperties", "unevaluatedProperties", "patternProperties")


def item_check(name: str, schema: object) -> ItemCheck:
    """Returns the check of a class of items by its schema; raises ConfigurationError or LibraryMissing.

    With a dataclass, an item must have all fields without default, no further fields, and values of the annotated
    types. An int passes as float, and a list as tuple; no other value is converted. With a mapping, a JSON Schema, an
    item may have only the properties of the schema, unless `additionalProperties` is set.
    """
    if isinstance(schema, type) and dataclasses.is_dataclass(schema):
        return _bounded(_fields_of(schema, f"item_schemas[{name!r}]"), name)
    if isinstance(schema, Mapping):
        return _json_schema(name, schema)
    raise ConfigurationError(
        f"item_schemas[{name!r}]: a dataclass or a JSON Schema is needed, not {schema!r}"
    )


def _bounded(check: _Check, name: str) -> ItemCheck:
    """Limits a check to the first problems of an item, which may have thousands."""
    return lambda item: [
        problem for problem, _ in zip(check(item, name), range(_MOST_PROBLEMS), strict=False)
    ]


def _json_schema(name: str, schema: Mapping[str, Any]) -> ItemCheck:
    jsonschema: Any = optional("item_schemas", "jsonschema", "alarms", "jsonschema")
    referencing: Any = optional("item_schemas", "jsonschema", "alarms", "referencing")
    whole = dict(schema)
    if "properties" in whole and not any(word in whole for word in _CLOSING):
        whole["additionalProperties"] = False
    kind = jsonschema.validators.validator_for(whole, jsonschema.Draft202012Validator)
    try:
        kind.check_schema(whole)
    except jsonschema.exceptions.SchemaError as error:
        where = "/".join(map(str, error.absolute_path))
        raise ConfigurationError(
            f"item_schemas[{name!r}] is not a JSON Schema: {where and where + ': '}{error.message}"
        ) from error
    # an empty registry: without one, a $ref to another server would be fetched
    validator = kind(whole, registry=referencing.Registry())

    def check(item: Any, path: str) -> Iterator[str]:
        for error in validator.iter_errors(plain(dict(item))):
            yield f"{'.'.join([path, *map(str, error.absolute_path)])}: {error.message}"

    return _bounded(check, name)


def _fields_of(schema: type[Any], path: str) -> _Check:
    """Returns the check of a mapping by the fields of a dataclass."""
    try:
        hints = get_type_hints(schema, include_extras=True)
    except (NameError, TypeError) as error:
        raise ConfigurationError(
            f"{path}: the types of {schema.__qualname__} cannot be read: {error}"
        ) from error
    known = [field for field in dataclasses.fields(schema) if field.init]
    checks = {field.name: _type(hints[field.name], f"{path}.{field.name}") for field in known}
    needed = [
        field.name
        for field in known
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]

    def check(item: Any, path: str) -> Iterator[str]:
        if not isinstance(item, Mapping):
            yield _expected(path, schema.__name__, item)
            return
        yield from (f"{path}.{name} is missing" for name in needed if name not in item)
        for name, value in item.items():
            if name in checks:
                yield from checks[name](value, f"{path}.{name}")
            else:
                yield f"{path}.{name} is not in the schema"

    return check


def _type(hint: Any, path: str) -> _Check:
    """Returns the check of a value by its annotation; raises ConfigurationError for an unsupported annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return lambda value, here: iter(())
    if origin is Annotated:
        return _type(arguments[0], path)
    if origin in (Union, types.UnionType):
        return _any_of([_type(argument, path) for argument in arguments], " or ".join(map(_name, arguments)))
    if origin is Literal:
        return _when(
            lambda value: any(
                value is argument or (value == argument and type(value) is type(argument))
                for argument in arguments
            ),
            _name(hint),
        )
    if hint is None or hint is type(None):
        return _when(lambda value: value is None, "None")
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _fields_of(hint, path)
    base = origin or hint
    if not isinstance(base, type):
        raise ConfigurationError(f"{path}: values of type {_name(hint)} cannot be checked")
    if issubclass(base, Mapping):
        return _mapping(*(_type(argument, path) for argument in arguments or (Any, Any)))
    if base in (list, tuple, set, frozenset) or getattr(base, "__module__", "") == "collections.abc":
        inner = [argument for argument in arguments if argument is not Ellipsis]
        if base is tuple and len(inner) > 1:
            return _tuple([_type(argument, path) for argument in inner], _name(hint))
        return _sequence(_type(inner[0] if inner else Any, path), _name(hint))
    return _when(lambda value: _is_a(value, base), _name(hint))


def _is_a(value: object, kind: type[Any]) -> bool:
    if isinstance(value, bool):
        return issubclass(bool, kind) and kind is not int
    return isinstance(value, (int, float) if kind is float else kind)


def _when(holds: Callable[[Any], bool], name: str) -> _Check:
    def check(value: Any, here: str) -> Iterator[str]:
        if not holds(value):
            yield _expected(here, name, value)

    return check


def _any_of(checks: list[_Check], name: str) -> _Check:
    return _when(lambda value: any(next(check(value, ""), None) is None for check in checks), name)


def _mapping(key: _Check, value: _Check) -> _Check:
    def check(entries: Any, here: str) -> Iterator[str]:
        if not isinstance(entries, Mapping):
            yield _expected(here, "dict", entries)
            return
        for name, item in entries.items():
            yield from key(name, f"key of {here}")
            yield from value(item, f"{here}.{name}")

    return check


def _sequence(inner: _Check, name: str) -> _Check:
    def check(items: Any, here: str) -> Iterator[str]:
        if not isinstance(items, list | tuple | set | frozenset):
            yield _expected(here, name, items)
            return
        for number, item in enumerate(items):
            yield from inner(item, f"{here}[{number}]")

    return check


def _tuple(inner: list[_Check], name: str) -> _Check:
    def check(items: Any, here: str) -> Iterator[str]:
        if not isinstance(items, list | tuple) or len(items) != len(inner):
            yield _expected(here, name, items)
            return
        for number, (item, part) in enumerate(zip(items, inner, strict=True)):
            yield from part(item, f"{here}[{number}]")

    return check


def _expected(path: str, name: str, value: object) -> str:
    return f"{path}: {name} expected, {type(value).__name__} found ({_short(value)})"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _name(hint: Any) -> str:
    if hint is type(None):
        return "None"
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint.__name__
    return str(hint).replace("typing.", "")
