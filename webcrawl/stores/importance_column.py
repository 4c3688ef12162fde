"""The column `importance` of table `pages`, which changes after the rows are stored."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.sql import bindparam

from webcrawl.stores.columns import pages
from webcrawl.stores.database import Database

ROWS = 1_000


class ImportanceColumn:
    """Reads and updates the column in the database at a URI. Methods raise StoreError and may run in any thread."""

    def __init__(self, uri: str) -> None:
        self._database = Database(uri)

    def read(self, crawl: str, after: str = "") -> dict[str, float | None]:
        """Returns URL -> importance of up to ROWS pages that a crawl fetched last, sorted, after the URL `after`."""
        query = select(pages.c.url, pages.c.importance).where(pages.c.url > after, pages.c.crawl == crawl)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(pages.c.url).limit(ROWS)).all()
        return {row.url: row.importance for row in rows}

    def write(self, values: Mapping[str, float]) -> None:
        """Sets the importance of URLs, in one transaction."""
        if not values:
            return
        statement = pages.update().where(pages.c.url == bindparam("key", type_=pages.c.url.type))
        rows = [{"key": url, "value": values[url]} for url in sorted(values)]
        self._database.write(
            lambda connection: connection.execute(statement.values(importance=bindparam("value")), rows),
            at_leisure=True,
        )

    def close(self) -> None:
        """Closes the connections."""
        self._database.close()
