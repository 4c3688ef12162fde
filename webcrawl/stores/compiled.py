"""Statements in a driver's own words, for the two that run for every page: SQLAlchemy adds more to a row than it costs.

Columns keep their types: values are turned by what SQLAlchemy would call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import Column, Dialect

Processors: TypeAlias = list[tuple[str, Callable[[Any], Any]]]


# PostgreSQL's number of the type of our only column that asks what the driver brings
_FLOAT8 = 701


class Compiled:
    """A statement over some columns, its text made once."""

    def __init__(self, statement: Any, columns: Iterable[Column[Any]], dialect: Dialect) -> None:
        self._columns = tuple(columns)
        self._names = tuple(column.name for column in self._columns)
        # every driver takes parameters by name, if not in the first place
        named: Any = type(dialect)(paramstyle="named") if dialect.name == "sqlite" else dialect  # type: ignore[call-arg]
        self.text = str(statement.compile(dialect=named, column_keys=self._names))

    def _processors(
        self, process: Callable[[Any], Callable[[Any], Any] | None], dialect: Dialect
    ) -> Processors:
        found = [(column.name, process(column.type.dialect_impl(dialect))) for column in self._columns]
        return [(name, one) for name, one in found if one is not None]


class Reading(Compiled):
    """One that gives rows."""

    def __init__(self, statement: Any, columns: Iterable[Column[Any]], dialect: Dialect) -> None:
        super().__init__(statement, columns, dialect)
        self._process = self._processors(lambda kind: kind.result_processor(dialect, _FLOAT8), dialect)

    def row(self, values: Sequence[Any]) -> dict[str, Any]:
        """A row by column names, of what the driver gave."""
        row = dict(zip(self._names, values, strict=True))
        for name, process in self._process:
            if row[name] is not None:
                row[name] = process(row[name])
        return row


class Writing(Compiled):
    """One that takes rows."""

    def __init__(self, statement: Any, columns: Iterable[Column[Any]], dialect: Dialect) -> None:
        super().__init__(statement, columns, dialect)
        self._process = self._processors(lambda kind: kind.bind_processor(dialect), dialect)

    def parameters(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """What the driver takes for a row that has all columns."""
        values = dict(row)
        for name, process in self._process:
            if values[name] is not None:
                values[name] = process(values[name])
        return values
