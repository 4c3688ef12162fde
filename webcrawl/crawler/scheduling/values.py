"""MessagePack of the values that requests carry: plain data, and items by the name of their class. Never pickle."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgpack

from webcrawl.crawler.scheduling import items
from webcrawl.errors import StoreError, Unserializable

_EXTENSIONS: dict[int, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    # code: type, to something MessagePack knows, back
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
"""A message names the attribute of a request and the key in `meta` or `cb_kwargs`."""

_DEEPEST = 50
"""Levels of nested tuples, sets and items. The parser recurses on the C stack, which ends at about 200."""


def pack(value: Any) -> bytes:
    """MessagePack of plain data, tuples, sets, dates, decimals and items; raises Unserializable, which says where."""
    try:
        return _pack(value, 0)
    except Unserializable as error:
        path, reason = _culprit(value)
        raise Unserializable(f"{path} {reason}" if path else reason or str(error)) from error


def unpack(data: bytes) -> Any:
    """The reverse of `pack`; raises StoreError when the data is damaged or names a class that is not loaded."""
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
        return msgpack.ExtType(_ITEM, _pack(items.take_apart(inner), depth + 1))

    try:
        return bytes(msgpack.packb(value, default=encode, strict_types=True))
    except (TypeError, ValueError, OverflowError) as error:
        raise Unserializable(str(error)) from error


def _unpack(data: bytes, depth: int) -> Any:
    def decode(code: int, inner: bytes) -> Any:
        if depth >= _DEEPEST or not (code in _EXTENSIONS or code == _ITEM):
            raise ValueError(f"extension type {code} at depth {depth}")
        plain = _unpack(inner, depth + 1)
        return items.put_together(plain) if code == _ITEM else _EXTENSIONS[code][2](plain)

    return msgpack.unpackb(data, ext_hook=decode, strict_map_key=False)


def _culprit(value: Any, path: str = "", depth: int = 0) -> tuple[str, str]:
    """Where in a request's record is the first part that cannot be packed, such as `meta['a'][].price`, and why.

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
    """The parts of a container or item, each with its key, its field or None."""
    if isinstance(value, dict):
        return [*((None, key) for key in value), *value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return ((None, inner) for inner in value)
    try:
        _, _, fields, others = items.take_apart(value)
    except TypeError:
        return ()
    return (fields | others).items()
