"""Statements in a driver's own words, for those that run for every page: SQLAlchemy adds more to a row than it costs.

Columns keep their types: values are turned by what SQLAlchemy would call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import Column, Dialect

Process: TypeAlias = Callable[[Any], Any]

# PostgreSQL's number of the type of our only column that asks what the driver brings
_FLOAT8 = 701


class Reading:
    """A statement that gives rows of some columns, its text made once. It takes parameters by name."""

    def __init__(self, statement: Any, columns: Iterable[Column[Any]], dialect: Dialect) -> None:
        columns = tuple(columns)
        self._names = tuple(column.name for column in columns)
        self.text = str(statement.compile(dialect=_in_style(dialect, "named", "pyformat")))
        processors = [
            column.type.dialect_impl(dialect).result_processor(dialect, _FLOAT8) for column in columns
        ]
        self._process: list[tuple[str, Process]] = [
            (name, process)
            for name, process in zip(self._names, processors, strict=True)
            if process is not None
        ]

    def row(self, values: Sequence[Any]) -> dict[str, Any]:
        """A row by column names, of what the driver gave."""
        row = dict(zip(self._names, values, strict=True))
        for name, process in self._process:
            if row[name] is not None:
                row[name] = process(row[name])
        return row


class Writing:
    """A statement that takes rows, its text made once. `columns` says what its parameters are, by their names."""

    def __init__(self, statement: Any, columns: Mapping[str, Column[Any]], dialect: Dialect) -> None:
        styled = _in_style(dialect, "qmark", "format")
        compiled = statement.compile(dialect=styled, column_keys=list(columns))
        self.text = str(compiled)
        taken = [columns[name] for name in compiled.positiontup]
        self._taken: list[tuple[str, Process | None]] = [
            (column.name, column.type.dialect_impl(dialect).bind_processor(dialect)) for column in taken
        ]

    def parameters(self, rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
        """What the driver takes for these rows; a column that a row does not have is null."""
        # column by column, because a call for each value would cost as much as the database
        columns = []
        for name, process in self._taken:
            if process is None:
                columns.append([row.get(name) for row in rows])
            else:
                columns.append([None if (value := row.get(name)) is None else process(value) for row in rows])
        return list(zip(*columns, strict=True))


def _in_style(dialect: Dialect, sqlite: str, postgresql: str) -> Any:
    kind: Any = type(dialect)
    return kind(paramstyle=sqlite if dialect.name == "sqlite" else postgresql)
