"""The fields of an export: the columns of table `pages`, with types that all formats share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Boolean, Float, Integer
from sqlalchemy.types import TypeEngine

from webcrawl.stores.columns import Structure, Unsigned64, UtcTime, pages

_KINDS: tuple[tuple[type[TypeEngine[Any]], str], ...] = (
    # the first match counts: a BigInteger is an Integer too
    (UtcTime, "time"),
    (Unsigned64, "uint64"),
    (Structure, "json"),
    (BigInteger, "int64"),
    (Integer, "int32"),
    (Float, "double"),
    (Boolean, "boolean"),
)


def _kind(column_type: TypeEngine[Any]) -> str:
    return next((kind for known, kind in _KINDS if isinstance(column_type, known)), "string")


FIELDS: Mapping[str, str] = {column.name: _kind(column.type) for column in pages.columns}
"""Name -> string, int32, int64, uint64, double, boolean, time (UTC, microseconds) or json."""
