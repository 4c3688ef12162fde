"""The links of a store in DuckDB, which numbers pages and sorts edges, on disk if memory is too small.

Until pages have numbers, 64-bit hashes of their URLs identify them. The probability that two of n URLs have the same
hash, so that their edges mix, is n^2 / 2^65: 7e-5 for 50 million.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from webcrawl.errors import StoreError, StoreUnavailable, brief
from webcrawl.graph.digraph import Digraph, EdgeWriter
from webcrawl.graph.libraries import duckdb, pyarrow

COLUMNS = ("from_host", "from_url", "to_host", "to_url", "nofollow", "crawl", "time", "read_at")
"""The columns of the link store that are read."""
_ROWS = 1 << 20
_MOST = 2**31 - 1

_TABLES = """
    CREATE TABLE page (hash UBIGINT, host VARCHAR, url VARCHAR, version HUGEINT);
    CREATE TABLE target (hash UBIGINT, host VARCHAR, url VARCHAR);
    CREATE TABLE link (source UBIGINT, target UBIGINT, version HUGEINT);
"""
_VERSION = "epoch_us(time)::HUGEINT * 10000000000000000 + epoch_us(coalesce(read_at, time))"
"""Orders the readings of a page by the time of the fetch, then by the time of the reading."""
_ADD_PAGES = "INSERT INTO page SELECT DISTINCT hash(from_url), from_host, from_url, version FROM added"
_ADD_TARGETS = "INSERT INTO target SELECT DISTINCT hash(to_url), to_host, to_url FROM added WHERE counts"
_ADD_LINKS = "INSERT INTO link SELECT hash(from_url), hash(to_url), version FROM added WHERE counts"
_READ_AGAIN = "SELECT count(*) FROM (SELECT hash FROM page GROUP BY hash HAVING min(version) < max(version))"
_FORGET = """
    DELETE FROM link USING (SELECT hash, max(version) AS last FROM page GROUP BY hash) AS pages
    WHERE link.source = pages.hash AND link.version < pages.last;
    DELETE FROM target WHERE hash NOT IN (SELECT target FROM link);
"""
_NUMBER = """
    CREATE TABLE vertex AS SELECT (row_number() OVER () - 1)::INTEGER AS id, host, url, hash FROM (
        SELECT min(host) AS host, url, hash
        FROM (SELECT hash, host, url FROM page UNION ALL SELECT hash, host, url FROM target)
        GROUP BY url, hash ORDER BY host, url
    );
    DROP TABLE page;
    DROP TABLE target;
"""
_EDGES = """
    SELECT (sources.id::BIGINT << 32) | targets.id AS key FROM link
    JOIN vertex AS sources ON sources.hash = link.source JOIN vertex AS targets ON targets.hash = link.target
    WHERE sources.id <> targets.id ORDER BY key
"""


class LinkDatabase:
    """A database in its own folder. Methods raise StoreError, or StoreUnavailable when the disk is full."""

    def __init__(self, folder: Path, memory: int, *, crawl: str | None, nofollow: bool) -> None:
        """Uses `memory` bytes for DuckDB, and the links of `crawl` or all crawls; `nofollow`: also nofollow links."""
        folder.mkdir()
        options = {
            "memory_limit": f"{memory}B",
            "temp_directory": str(folder / "spill"),
            # DuckDB must not download anything
            "autoinstall_known_extensions": "false",
        }
        self._errors = duckdb().Error
        try:
            self._connection = duckdb().connect(str(folder / "links.duckdb"), config=options)
        except self._errors as error:
            raise failed(error) from error
        self.execute("SET enable_progress_bar = false; BEGIN TRANSACTION")
        self.execute(_TABLES)
        self._memory = memory
        self._counts = "true" if nofollow else "NOT nofollow"
        self._crawl = crawl

    def close(self) -> None:
        """Closes the database; its files stay."""
        self._connection.close()

    def execute(self, query: str, values: list[Any] | None = None) -> Any:
        """Runs a statement; returns DuckDB's connection, from which the result can be fetched."""
        try:
            return self._connection.execute(query, values)
        except self._errors as error:
            raise failed(error) from error

    def add(self, tables: Iterator[Any]) -> None:
        """Adds rows of the link store: Arrow tables with COLUMNS."""
        waiting: list[Any] = []
        for table in tables:
            waiting.append(table)
            if sum(map(len, waiting)) >= _ROWS:
                self._add(waiting)
                waiting = []
        if waiting:
            self._add(waiting)

    def _add(self, tables: list[Any]) -> None:
        self._connection.register("batch", pyarrow().concat_tables(tables))
        only, values = ("WHERE crawl = $1", [self._crawl]) if self._crawl else ("", None)
        names = "from_host, from_url, to_host, to_url"
        columns = f"{names}, {_VERSION} AS version, {self._counts} AS counts"
        self.execute(f"CREATE OR REPLACE TEMP TABLE added AS SELECT {columns} FROM batch {only}", values)
        self._connection.unregister("batch")
        for statement in (_ADD_PAGES, _ADD_TARGETS, _ADD_LINKS):
            self.execute(statement)

    def number(self) -> tuple[int, int]:
        """Numbers all pages in the order of reversed hosts and URLs; returns the numbers of pages and links.

        If a page was fetched or read several times, only the links of the last reading of the last fetch are used.
        """
        self.execute("DROP TABLE IF EXISTS added; COMMIT")
        ((again,),) = self.execute(_READ_AGAIN).fetchall()
        if again:
            self.execute(_FORGET)
        self.execute(_NUMBER)
        counts = "SELECT (SELECT count(*) FROM vertex), (SELECT count(*) FROM link)"
        ((pages, links),) = self.execute(counts).fetchall()
        if pages > _MOST:
            raise StoreError(f"{pages:,} pages are more than the {_MOST:,} that a graph can have")
        return int(pages), int(links)

    def graph(self, pages: int, path: Path) -> Digraph:
        """Returns the graph of pages, without links of pages to themselves. `path`: a new file for its edges."""
        writer = EdgeWriter(pages, path)
        for batch in self.batches(_EDGES):
            writer.add(batch.column(0).to_numpy())
        graph = writer.finished()
        # further queries are small, and the measures need memory
        self.execute(f"DROP TABLE link; SET memory_limit = '{self._memory // 4}B'")
        if graph.edges > _MOST:
            raise StoreError(f"{graph.edges:,} edges are more than the {_MOST:,} that a graph can have")
        return graph

    def pages(self) -> Iterator[Any]:
        """Yields the pages as Arrow record batches: id, host, url."""
        return self.batches("SELECT id, host, url FROM vertex ORDER BY id")

    def hosts(self) -> Any:
        """Returns the hosts of all pages as an Arrow table, in order: id, host, pages."""
        query = "SELECT host, count(*)::INTEGER AS pages FROM vertex GROUP BY host ORDER BY host"
        table = pyarrow().Table.from_batches(self.batches(query))
        return table.add_column(0, "id", pyarrow().array(np.arange(len(table), dtype=np.int32)))

    def batches(self, query: str, values: list[Any] | None = None) -> Iterator[Any]:
        """Yields the result of a query as Arrow record batches."""
        try:
            yield from self._connection.sql(query, params=values).to_arrow_reader(_ROWS)
        except (self._errors, pyarrow().ArrowException) as error:
            raise failed(error) from error


def failed(error: Exception) -> StoreError:
    """Returns the StoreError for an error of DuckDB: a StoreUnavailable if the disk is full."""
    message = brief(error)
    kind = (
        StoreUnavailable if "No space left" in message or "max_temp_directory_size" in message else StoreError
    )
    return kind(f"DuckDB: {message}")
