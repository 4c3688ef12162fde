"""Reads single columns of table `pages`, also columns that an operator has added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Dialect,
    Float,
    Integer,
    Numeric,
    column,
    func,
    inspect,
    literal_column,
    null,
    select,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.sql import bindparam

from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.stores.columns import pages
from webcrawl.stores.database import DatabaseTables, is_read_only
from webcrawl.stores.selection import begins_with

_ROWS = 5_000
IMPORTANCE_ROWS = 1_000
"""The most rows that `ImportanceColumn.read` returns."""
_NUMBERS = (Integer, Float, Numeric, Boolean)
_DETAILS = "details."


class ChosenColumns(DatabaseTables):
    """Reads columns of the database at a URI. Methods raise StoreError with the name of the database."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri, read_only=is_read_only(uri))

    def check_number(self, name: str) -> None:
        """Raises ConfigurationError, which lists the numeric columns, unless the column `name` is numeric."""
        with self.database.reading() as connection:
            try:
                known = {
                    column["name"]: column["type"] for column in inspect(connection).get_columns(pages.name)
                }
            except SQLAlchemyError as error:
                raise StoreError(f"{self.name} has no table {pages.name}") from error
        numbers = sorted(name for name, kind in known.items() if isinstance(kind, _NUMBERS))
        if name not in numbers:
            what = "has no numbers" if name in known else "is no column of table pages"
            raise ConfigurationError(f"{name!r} {what}; these columns have: {', '.join(numbers)}")

    def scan(self, names: Sequence[str], crawl: str | None = None) -> Iterator[list[Sequence[Any]]]:
        """Yields batches of rows with `url` and these columns, sorted by URL; only pages that `crawl` fetched last."""
        # SQLAlchemy quotes the names; declared columns have the types that convert their values
        chosen = [pages.c[name] if name in pages.c else column(name) for name in names]
        query = select(pages.c.url, *chosen).order_by(pages.c.url).limit(_ROWS).select_from(pages)
        if crawl is not None:
            query = query.where(pages.c.crawl == crawl)
        after = ""
        while True:
            with self.database.reading() as connection:
                rows: list[Sequence[Any]] = list(connection.execute(query.where(pages.c.url > after)))
            if rows:
                yield rows
            if len(rows) < _ROWS:
                return
            after = rows[-1][0]

    def window(self, names: Sequence[str], after: str, prefix: str, most: int) -> list[dict[str, Any]]:
        """Returns the first `most` rows of all crawls after a URL: `url` and declared columns, sorted by URL.

        Reads only rows whose URLs begin with `prefix`.
        """
        wanted = [pages.c.url > after, *begins_with(pages.c.url, prefix)]
        query = select(pages.c.url, *(pages.c[name] for name in names)).where(*wanted)
        with self.database.reading() as connection:
            rows = connection.execute(query.order_by(pages.c.url).limit(most)).mappings()
            return [dict(row) for row in rows]


def chosen_value(name: str, dialect: Dialect) -> ColumnElement[Any]:
    """Returns what selects a column of table `pages`, or a value of its JSON object `details` as "details.KEY".

    `name` has only letters, digits, "-" and "_" besides; without a name, the value is null.
    """
    key = name.removeprefix(_DETAILS)
    if not name or key == name:
        return column(name) if name else null()
    if dialect.name == "sqlite":
        return func.json_extract(pages.c.details, literal_column(f"'$.\"{key}\"'"))
    return pages.c.details.op("->")(literal_column(f"'{key}'"))


class ImportanceColumn(DatabaseTables):
    """The column `importance` in the database at a URI, which changes after the rows are stored.

    Methods raise StoreError and may run in any thread.
    """

    def read(self, crawl: str, after: str = "") -> dict[str, float | None]:
        """Returns URL -> importance of the next IMPORTANCE_ROWS pages after a URL that a crawl fetched last, sorted."""
        query = select(pages.c.url, pages.c.importance).where(pages.c.url > after, pages.c.crawl == crawl)
        with self.database.reading() as connection:
            rows = connection.execute(query.order_by(pages.c.url).limit(IMPORTANCE_ROWS)).all()
        return {row.url: row.importance for row in rows}

    def write(self, values: Mapping[str, float]) -> None:
        """Sets the importance of URLs, in one transaction."""
        if not values:
            return
        statement = pages.update().where(pages.c.url == bindparam("key", type_=pages.c.url.type))
        rows = [{"key": url, "value": values[url]} for url in sorted(values)]
        self.database.write(
            lambda connection: connection.execute(statement.values(importance=bindparam("value")), rows),
            at_leisure=True,
        )
