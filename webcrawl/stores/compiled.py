"""Statements that are compiled once and run by the driver, because SQLAlchemy's overhead exceeds the cost of a row.

Values are converted by the same functions of column types that SQLAlchemy would call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import Column, Dialect

Process: TypeAlias = Callable[[Any], Any]

# PostgreSQL's type number of float8, the only type whose processor depends on the driver's
_FLOAT8 = 701


class Reading:
    """A compiled statement that returns rows of some columns. Its parameters are named."""

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
        """A row by column name, from the values of the driver."""
        row = dict(zip(self._names, values, strict=True))
        for name, process in self._process:
            if row[name] is not None:
                row[name] = process(row[name])
        return row


class Writing:
    """A compiled statement that stores rows. `columns` maps the names of its parameters to columns."""

    def __init__(self, statement: Any, columns: Mapping[str, Column[Any]], dialect: Dialect) -> None:
        styled = _in_style(dialect, "qmark", "format")
        compiled = statement.compile(dialect=styled, column_keys=list(columns))
        self.text = str(compiled)
        taken = [columns[name] for name in compiled.positiontup]
        self._taken: list[tuple[str, Process | None]] = [
            (column.name, column.type.dialect_impl(dialect).bind_processor(dialect)) for column in taken
        ]

    def parameters(self, rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
        """The parameters of the driver for these rows. A column that a row lacks is null."""
        # by column, because a call for each value would cost as much as the database
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
