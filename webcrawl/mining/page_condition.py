"""A condition on pages in SQL, which an operator writes: `language = 'ja' AND text_length > 2000`.

DuckDB evaluates it in a connection of its own, which has no tables, reads no files and loads nothing. The condition is
a single expression without queries in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Boolean, Float, Integer

from webcrawl.errors import ConfigurationError, brief
from webcrawl.mining.libraries import duckdb, pyarrow
from webcrawl.stores.columns import Structure, Unsigned64, UtcTime, pages

TEXT_LENGTH = "text_length"
"""The name of the length of the main text, which is in `details`."""
_COMPARISON = re.compile(r"[=<>]|\s(?:in|is|like|ilike|between|similar)\s", re.IGNORECASE)
_REFUSED = {"SUBQUERY": "a query", "WINDOW": "a window", "STAR": "*", "PARAMETER": "a parameter"}
_SANDBOX = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "threads": 1,
    "lock_configuration": True,
}


def is_condition(text: str) -> bool:
    """Returns whether a text is a condition rather than the name of a column."""
    return _COMPARISON.search(text) is not None


class PageCondition:
    """A condition; raises ConfigurationError if it is no single expression on columns of table `pages`."""

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._library = duckdb()
        self._connection = self._library.connect(":memory:", config=_SANDBOX)
        # the line break ends a comment
        self._query = f"SELECT coalesce(({sql}\n)::BOOLEAN, false) FROM pages"
        names = list(dict.fromkeys(_columns(self._tree())))
        known = [TEXT_LENGTH, *(column.name for column in pages.columns)]
        if unknown := [name for name in names if name not in known]:
            raise self._refused(f"{unknown[0]!r} is none of {', '.join(sorted(known))}")
        self._names = names or ["url"]
        if self._holds([]):  # an aggregate has a row for no page
            raise self._refused("it tells something about all pages, not about each")

    @property
    def columns(self) -> list[str]:
        """The columns of table `pages` that `holds` reads."""
        return ["details" if name == TEXT_LENGTH else name for name in self._names]

    def holds(self, rows: Sequence[Mapping[str, Any]]) -> list[bool]:
        """Returns for each row whether the condition holds; it does not hold if it is unknown (NULL)."""
        return self._holds(rows)

    def _holds(self, rows: Sequence[Mapping[str, Any]]) -> list[bool]:
        arrow = pyarrow()
        columns = {name: [_value(name, row) for row in rows] for name in self._names}
        schema = arrow.schema([(name, _arrow_type(name)) for name in self._names])
        self._connection.register("pages", arrow.table(columns, schema=schema))
        try:
            return [bool(row[0]) for row in self._connection.execute(self._query).fetchall()]
        except self._library.Error as error:
            raise self._refused(brief(error)) from error

    def _tree(self) -> Any:
        """Returns the expression as DuckDB parses it."""
        query = f"SELECT ({self._sql}\n) FROM pages"
        rows = self._connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()
        parsed = json.loads(rows[0][0])
        if parsed["error"]:
            raise self._refused(parsed["error_message"])
        node = parsed["statements"][0]["node"]
        table = node.get("from_table") or {}
        is_single = len(parsed["statements"]) == len(node.get("select_list", ())) == 1
        if not is_single or table.get("table_name") != "pages" or node.get("where_clause"):
            raise self._refused("it is no single expression")
        return node["select_list"][0]

    def _refused(self, why: str) -> ConfigurationError:
        return ConfigurationError(f"--target {self._sql!r} is no condition on pages: {why}")


def _columns(tree: Any) -> Iterator[str]:
    """Yields the names of the columns in an expression; raises ConfigurationError for what no condition needs."""
    waiting = [tree]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            kind = inner.get("class")
            if kind in _REFUSED:
                raise ConfigurationError(f"--target: a condition on pages cannot have {_REFUSED[kind]} in it")
            if kind == "COLUMN_REF":
                yield inner["column_names"][-1]
            waiting += inner.values()
        elif isinstance(inner, list):
            waiting += inner


def _arrow_type(name: str) -> Any:
    arrow = pyarrow()
    kind = Integer() if name == TEXT_LENGTH else pages.c[name].type
    types = {
        UtcTime: arrow.timestamp("us"),
        Unsigned64: arrow.uint64(),
        Integer: arrow.int64(),
        Float: arrow.float64(),
        Boolean: arrow.bool_(),
    }
    return next((known for type_of, known in types.items() if isinstance(kind, type_of)), arrow.string())


def _value(name: str, row: Mapping[str, Any]) -> Any:
    if name == TEXT_LENGTH:
        length = (row["details"] or {}).get(TEXT_LENGTH)
        return length if isinstance(length, int) else None
    value = row[name]
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None)
    if value is not None and isinstance(pages.c[name].type, Structure):
        return json.dumps(value)
    return value
