"""Adds the fields of EXTRACT to the rows of an export, as columns with their types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from webcrawl.config.extraction import ExtractRule, field_types
from webcrawl.errors import ConfigurationError
from webcrawl.results.exports.parts import FIELDS, Row

_KINDS = {
    "str": "string",
    "int": "int64",
    "float": "double",
    "date": "time",
    "bool": "boolean",
    "list": "strings",
}
_TAKEN = frozenset([*FIELDS, "text", "markdown", "change", "contents_since", "contents_until"])
"""The columns that exports and tables of the lake may have."""
_TYPES = {"str": str, "int": int, "bool": bool, "list": list}


def extracted_fields(rules: Sequence[ExtractRule]) -> dict[str, str]:
    """Returns the kinds of the columns by name; raises ConfigurationError for the name of another column."""
    types = field_types(rules)
    if taken := sorted(types.keys() & _TAKEN):
        raise ConfigurationError(
            f"EXTRACT, field {taken[0]!r}: exports have a column of this name already; rename the field"
        )
    return {name: _KINDS[kind] for name, kind in types.items()}


def with_extracted(rows: Iterable[Row], rules: Sequence[ExtractRule]) -> Iterator[dict[str, Any]]:
    """Yields rows with their fields; None where a page has none, or had one of another type at its last reading."""
    types = field_types(rules)
    for row in rows:
        values = row["extracted"] or {}
        yield {**row, **{name: _value(values.get(name), kind) for name, kind in types.items()}}


def _value(value: Any, kind: str) -> Any:
    if kind == "date":
        with suppress(TypeError, ValueError):
            return datetime.fromisoformat(value)
        return None
    if kind == "float":
        return float(value) if type(value) in (int, float) else None
    return value if type(value) is _TYPES[kind] else None
