"""Rows of table `pages` whose archived response is read again.

A row describes a fetch (time, status, location in the archive ...) and the facts read from its body (`READ_FIELDS`).
Reading the body again changes only `READ_FIELDS`, and only while the row still describes the same fetch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Boolean, ColumnElement, Select, and_, case, func, literal_column, or_, select, true
from sqlalchemy.sql import bindparam

from webcrawl.errors import ConfigurationError, StoreError, StoreUnavailable
from webcrawl.stores.columns import pages
from webcrawl.stores.database import DatabaseTables
from webcrawl.stores.history import UNCHANGED
from webcrawl.stores.page_statements import WriteStatement
from webcrawl.stores.selection import CRAWLS, with_urls

READ_FIELDS = (
    *("mime_type", "charset", "length", "truncated", "simhash"),
    *("title", "description", "author", "published_at", "image_url", "canonical_url"),
    *("language", "language_source", "details", "processing_error"),
    *("extracted", "structured_data"),
)
"""The columns that reading a body determines."""

_FETCH = ("fetched_at", "warc_file", "warc_offset")
_AT_ONCE = 1_000

# without a digest, only the head was asked for (DEPTH_OF_COPY)
_IS_ARCHIVED = and_(pages.c.warc_file.is_not(None), pages.c.digest.is_not(None))
_IS_ANSWER = and_(pages.c.status.is_not(None), pages.c.status != UNCHANGED)


class ResponseLocation(NamedTuple):
    """A URL, and the location of its response record."""

    url: str
    file: str
    offset: int


class ComparedText(NamedTuple):
    """The SimHash of a page's text, if any, and the URL of an earlier page with nearly the same text (`first`)."""

    url: str
    simhash: int | None
    first: str | None


def sql_condition(sql: str) -> ColumnElement[bool]:
    """Returns a condition on table `pages` that the operator wrote in SQL."""
    # the line break ends a comment
    return literal_column(f"({sql}\n)", Boolean())


class RereadRows(DatabaseTables):
    """The rows of one crawl in the database at a URI. Methods raise StoreError and may run in any thread."""

    def __init__(self, uri: str, crawl: str) -> None:
        super().__init__(uri)
        dialect = self.database.dialect
        self._of_crawl = pages.c.crawl == crawl
        statement = pages.update().where(pages.c.url == bindparam("key", type_=pages.c.url.type))
        columns = {"key": pages.c.url}
        fields = {name: pages.c[name] for name in (*READ_FIELDS, "error")}
        marks = {name: pages.c[name] for name in ("duplicate_of", "duplicate_kind")}
        self._rewrite = WriteStatement(statement, columns | fields, dialect)
        self._mark = WriteStatement(statement, columns | marks, dialect)

    def crawls(self) -> list[str]:
        """Returns the names of the crawls that fetched the pages of the table last."""
        with self.database.reading() as connection:
            return list(connection.execute(CRAWLS).scalars())

    def count(self, where: Sequence[ColumnElement[bool]]) -> dict[str, int]:
        """Counts the rows that conditions choose.

        `pages`: archived responses; `not_archived`: responses that are not archived; `no_response`: URLs that did not
        answer, or answered only with 304. Raises ConfigurationError for a condition that the database refuses.
        """
        answered = case((_IS_ANSWER, 1), else_=0)
        archived = case((_IS_ARCHIVED, 1), else_=0)
        query = select(func.count(), func.sum(answered), func.sum(answered * archived)).where(
            self._of_crawl, *where
        )
        try:
            with self.database.reading() as connection:
                rows, answers, readable = connection.execute(query).one()
        except StoreUnavailable as error:
            # a missing column counts as temporary, because an operator may add it
            if "column" not in str(error):
                raise
            raise ConfigurationError(f"the rows cannot be chosen: {error}") from error
        except StoreError as error:
            raise ConfigurationError(f"the rows cannot be chosen: {error}") from error
        answers, readable = answers or 0, readable or 0
        return {"pages": readable, "not_archived": answers - readable, "no_response": rows - answers}

    def locations(self, where: Sequence[ColumnElement[bool]]) -> Iterator[ResponseLocation]:
        """Yields the locations of all archived responses that conditions choose, in the order of the archive."""
        columns = (pages.c.url, pages.c.warc_file, pages.c.warc_offset)
        query = select(*columns).where(self._of_crawl, _IS_ARCHIVED, _IS_ANSWER, *where)
        yield from map(ResponseLocation._make, self._stream(query.order_by(*columns[1:])))

    def rewrite(self, rows: Sequence[Mapping[str, Any]]) -> list[bool]:
        """Sets `READ_FIELDS` and `error` in one transaction.

        Returns for each row whether it was set: False if it was deleted, or describes another fetch by now.
        """

        def work(connection: Any) -> list[bool]:
            urls = [row["url"] for row in rows]
            query = select(pages.c.url, *(pages.c[name] for name in _FETCH)).where(
                with_urls(urls, self.database.dialect)
            )
            stored = {row.url: row[1:] for row in connection.execute(query.with_for_update())}
            same = [stored.get(row["url"]) == tuple(row[name] for name in _FETCH) for row in rows]
            self._execute(
                connection,
                self._rewrite,
                [row for row, is_same in zip(rows, same, strict=True) if is_same],
            )
            return same

        return self.database.write(work) if rows else []

    def texts(self) -> Iterator[ComparedText]:
        """Yields the texts of all pages of the crawl that may be near-duplicates or originals, in fetch order."""
        of = case((pages.c.duplicate_kind == "near", pages.c.duplicate_of))
        kind = func.coalesce(pages.c.duplicate_kind, "")
        compared = or_(kind == "near", and_(pages.c.simhash.is_not(None), kind != "exact"))
        query = select(pages.c.url, pages.c.simhash, of).where(
            self._of_crawl, compared, pages.c.soft_404.is_not(true())
        )
        yield from map(ComparedText._make, self._stream(query.order_by(pages.c.fetched_at, pages.c.url)))

    def mark(self, firsts: Mapping[str, str | None]) -> None:
        """Sets the originals of near-duplicates, None for no near-duplicate; exact copies stay exact copies."""
        marks = [
            {"url": url, "duplicate_of": first, "duplicate_kind": first and "near"}
            for url, first in sorted(firsts.items())
        ]
        for start in range(0, len(marks), _AT_ONCE):
            batch = marks[start : start + _AT_ONCE]
            self.database.write(
                lambda connection, batch=batch: self._execute(connection, self._mark, batch)  # type: ignore[misc]
            )

    def _execute(self, connection: Any, statement: WriteStatement, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            statement.store(connection, rows)

    def _stream(self, query: Select[Any]) -> Iterator[Any]:
        with self.database.reading() as connection:
            yield from connection.execution_options(yield_per=_AT_ONCE).execute(query)
