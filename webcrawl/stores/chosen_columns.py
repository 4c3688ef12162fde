"""Some columns of table `pages`, also such that its users have added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Boolean, Float, Integer, Numeric, column, inspect, select
from sqlalchemy.exc import SQLAlchemyError

from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.stores.columns import pages
from webcrawl.stores.database import Database, is_read_only
from webcrawl.stores.selection import begins_with

_ROWS = 5_000
_NUMBERS = (Integer, Float, Numeric, Boolean)


class ChosenColumns:
    """Reads columns in the database at a URI. Methods raise StoreError with its name."""

    def __init__(self, uri: str) -> None:
        self._database = Database(uri, read_only=is_read_only(uri))
        self.name = self._database.name

    def check_number(self, name: str) -> None:
        """Raises ConfigurationError, with all that could be meant, unless a column of this name has numbers."""
        with self._database.reading() as connection:
            try:
                known = {one["name"]: one["type"] for one in inspect(connection).get_columns(pages.name)}
            except SQLAlchemyError as error:
                raise StoreError(f"{self.name} has no table {pages.name}") from error
        numbers = sorted(name for name, kind in known.items() if isinstance(kind, _NUMBERS))
        if name not in numbers:
            what = "has no numbers" if name in known else "is no column of table pages"
            raise ConfigurationError(f"{name!r} {what}; these columns have: {', '.join(numbers)}")

    def scan(self, names: Sequence[str], crawl: str | None = None) -> Iterator[list[Sequence[Any]]]:
        """Yields batches of rows with `url` and these columns, sorted by URL; only what `crawl` fetched last."""
        # names are quoted by SQLAlchemy; those of our own have the types that convert their values
        chosen = [pages.c[name] if name in pages.c else column(name) for name in names]
        query = select(pages.c.url, *chosen).order_by(pages.c.url).limit(_ROWS).select_from(pages)
        if crawl is not None:
            query = query.where(pages.c.crawl == crawl)
        after = ""
        while True:
            with self._database.reading() as connection:
                rows: list[Sequence[Any]] = list(connection.execute(query.where(pages.c.url > after)))
            if rows:
                yield rows
            if len(rows) < _ROWS:
                return
            after = rows[-1][0]

    def window(self, names: Sequence[str], after: str, prefix: str, most: int) -> list[dict[str, Any]]:
        """Returns the first rows of all crawls with `url` and columns of our own, sorted by URL, after a URL.

        `prefix`: only those whose URL begins with it. Reads no other rows.
        """
        wanted = [pages.c.url > after, *begins_with(pages.c.url, prefix)]
        query = select(pages.c.url, *(pages.c[name] for name in names)).where(*wanted)
        with self._database.reading() as connection:
            found = connection.execute(query.order_by(pages.c.url).limit(most)).mappings()
            return [dict(row) for row in found]

    def close(self) -> None:
        """Closes the connections."""
        self._database.close()
