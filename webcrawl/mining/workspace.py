"""The pages and links of crawls as tables of DuckDB, in a temporary file that may be larger than the memory.

`webcrawl.mining.by_spark` has the same tables in Spark. Queries are in the SQL that both read.

links         the links of each page from its last reading: from_url, to_url, text, element, block, place, and
              time and read_at in microseconds since 1970
first_links   for each URL the first link to it from another page: to_url, from_url, text, time; pages: the number
              of pages that link to it; next_time: when the second of these pages was fetched
pages         a row for each page of table `pages`: url, depth, referrer, text_length, sound (whether it has content
              of its own: no error page, no soft 404, no copy), and its value, which is null if it is not known

`TABLES` become Parquet files. A new file replaces that of the previous run in one step.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from webcrawl.config.memory import usual_memory
from webcrawl.errors import StoreError, brief
from webcrawl.links.sources import LinkFiles
from webcrawl.mining.libraries import duckdb, pyarrow
from webcrawl.mining.targets import Target, is_sound, text_length
from webcrawl.stores.chosen_columns import ChosenColumns
from webcrawl.stores.file_lock import try_lock
from webcrawl.stores.objects.store import ObjectStore

_LINK_COLUMNS = ("from_url", "to_url", "text", "element", "block", "place", "time", "read_at")
_TIMES = ("time", "read_at")
_PAGE_COLUMNS = ("url", "depth", "referrer", "text_length", "sound", "value")
_BATCH = 10_000
_NAME = "mining.tmp"
_TABLES = """
CREATE TABLE links(
    from_url TEXT, to_url TEXT, text TEXT, element TEXT, block BIGINT, place INTEGER, time BIGINT, read_at BIGINT
);
CREATE TABLE pages(url TEXT, depth INTEGER, referrer TEXT, text_length BIGINT, sound BOOLEAN, value DOUBLE);
"""
FIRST_LINKS = """
WITH by_page AS (
    SELECT to_url, from_url, min_by(coalesce(text, ''), (time, place, coalesce(text, ''))) AS text,
           min((time, place)) AS seen, min(time) AS time
    FROM links WHERE from_url <> to_url GROUP BY to_url, from_url
), ranked AS (
    SELECT *, row_number() OVER later AS number, lead(time) OVER later AS next_time,
           count(*) OVER (PARTITION BY to_url) AS pages
    FROM by_page WINDOW later AS (PARTITION BY to_url ORDER BY seen, from_url)
)
SELECT to_url, from_url, text, time, next_time, pages FROM ranked WHERE number = 1
"""
_LATEST = """
DELETE FROM links
USING (SELECT from_url, max((time, coalesce(read_at, 0))) AS latest FROM links GROUP BY from_url) AS readings
WHERE links.from_url = readings.from_url AND (time, coalesce(read_at, 0)) < latest
"""


class MiningTables(ABC):
    """Tables by name, each of which a query makes from others. Methods raise StoreError."""

    @abstractmethod
    def create(self, name: str, query: str) -> None:
        """Adds a table with the rows of a query."""

    @abstractmethod
    def ranked(self, name: str, query: str, order: str) -> None:
        """Adds a table with the rows of a query, and a column `rank` from 1 in an order, as in ORDER BY."""

    @abstractmethod
    def mapped(
        self, name: str, query: str, function: Callable[[Sequence[str]], Any], columns: Sequence[str]
    ) -> None:
        """Adds a table with the record batches that a function of a module makes of the texts that a query returns.

        columns  their names; all have texts
        """

    @abstractmethod
    def lines(self, text: str, order: str) -> str:
        """Returns the aggregate that joins the values of a column, a line each, in the order of another column."""

    @abstractmethod
    def rows(self, query: str) -> Iterator[Sequence[tuple[Any, ...]]]:
        """Yields the rows of a query in batches."""

    @abstractmethod
    def exported(self, query: str, name: str) -> tuple[Path, int]:
        """Writes the rows of a query into a temporary Parquet file; returns its path and the number of rows."""

    @abstractmethod
    def load_links(self, files: LinkFiles, crawl: str | None = None) -> None:
        """Makes `links` and `first_links` of the links in files: of all links, or only those of `crawl`."""

    @abstractmethod
    def add_pages(self, tables: Iterable[Any]) -> None:
        """Makes `pages` of tables of Arrow."""

    @abstractmethod
    def count_new_links(self) -> None:
        """Sets the value of pages that count to the number of URLs to which they linked first."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether neither a page nor a link was loaded."""

    def load_pages(self, columns: ChosenColumns, target: Target, crawl: str | None = None) -> None:
        """Loads the pages with their values: all pages, or only those that `crawl` fetched last."""
        self.add_pages(_valued(columns, target, crawl))
        if target.needs_links:
            self.count_new_links()


def _valued(columns: ChosenColumns, target: Target, crawl: str | None) -> Iterator[Any]:
    """Yields the rows of table `pages` with their values, as tables of Arrow."""
    names = list(dict.fromkeys(("depth", "referrer", "details", *target.columns)))
    for batch in columns.scan(names, crawl):
        dicts = [dict(zip(("url", *names), row, strict=True)) for row in batch]
        rows = [
            {**row, "text_length": text_length(row), "sound": is_sound(row), "value": value}
            for row, value in zip(dicts, target.values(dicts), strict=True)
        ]
        yield pyarrow().Table.from_pylist(rows, page_schema())


def page_schema() -> Any:
    """Returns the schema of `pages`."""
    arrow = pyarrow()
    kinds = (arrow.string(), arrow.int32(), arrow.string(), arrow.int64(), arrow.bool_(), arrow.float64())
    return arrow.schema(list(zip(_PAGE_COLUMNS, kinds, strict=True)))


class Workspace(MiningTables):
    """The tables, in a folder that is deleted at the end. The folder of a killed process is deleted at the start."""

    def __init__(self, folder: Path) -> None:
        """Uses `folder`, which must have room for a copy of all links and serves one process at a time."""
        self._library = duckdb()
        self._folder, self._lock = claimed(folder)
        options = {
            # DuckDB would download extensions
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "memory_limit": f"{usual_memory()}B",
        }
        self._connection = self._library.connect(str(self._folder / "mining.duckdb"), config=options)
        self.run(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)

    def run(self, query: str, values: Sequence[object] = ()) -> Any:
        """Runs a query with values for its parameters; returns DuckDB's connection, from which to fetch the result."""
        try:
            return self._connection.execute(query, values)
        except self._library.Error as error:
            raise self._failed(error) from error

    def create(self, name: str, query: str) -> None:
        self.run(f"CREATE OR REPLACE TABLE {name} AS {query}")

    def ranked(self, name: str, query: str, order: str) -> None:
        self.create(name, f"SELECT *, row_number() OVER (ORDER BY {order}) AS rank FROM ({query}) AS ordered")

    def mapped(
        self, name: str, query: str, function: Callable[[Sequence[str]], Any], columns: Sequence[str]
    ) -> None:
        self.run(f"CREATE TABLE {name}({', '.join(f'{column} TEXT' for column in columns)})")
        self.create(f"unmapped_{name}", query)
        for batch in self.rows(f"SELECT * FROM unmapped_{name}"):
            made = function([text for (text,) in batch])
            self.add(name, pyarrow().Table.from_batches([made]))

    def lines(self, text: str, order: str) -> str:
        return f"string_agg({text}, chr(10) ORDER BY {order})"

    def rows(self, query: str) -> Iterator[Sequence[tuple[Any, ...]]]:
        # a separate connection, so that other queries may run meanwhile
        cursor = self._connection.cursor()
        try:
            cursor.execute(query)
            while batch := cursor.fetchmany(_BATCH):
                yield batch
        except self._library.Error as error:
            raise self._failed(error) from error
        finally:
            cursor.close()

    def add(self, table: str, rows: Any) -> None:
        """Adds an Arrow table to a table with the same columns."""
        self._connection.register("added", rows)
        self.run(f"INSERT INTO {table} BY NAME SELECT * FROM added")
        self._connection.unregister("added")

    def exported(self, query: str, name: str) -> tuple[Path, int]:
        path = self._folder / name
        quoted = str(path).replace("'", "''")
        (rows,) = self.run(f"COPY ({query}) TO '{quoted}' (FORMAT parquet, COMPRESSION zstd)").fetchone()
        return path, rows

    def load_links(self, files: LinkFiles, crawl: str | None = None) -> None:
        arrow = pyarrow()
        for opener in files.openers:
            file = opener()
            for group in file.groups:
                table = file.read(group, [*_LINK_COLUMNS, "crawl"])
                if crawl is not None:
                    table = table.filter(arrow.compute.equal(table["crawl"], crawl))
                for name in _TIMES:
                    times = table[name].cast(arrow.int64())
                    table = table.set_column(table.schema.get_field_index(name), name, times)
                self.add("links", table.select(_LINK_COLUMNS))
        self.create("first_links", FIRST_LINKS)
        self.run(_LATEST)

    def add_pages(self, tables: Iterable[Any]) -> None:
        for table in tables:
            self.add("pages", table)

    @property
    def is_empty(self) -> bool:
        row = self.run("SELECT EXISTS (FROM links) OR EXISTS (FROM pages)").fetchone()
        return not row[0]

    def count_new_links(self) -> None:
        self.run(
            "UPDATE pages SET value = (SELECT count(*) FROM first_links WHERE from_url = url) WHERE value > 0"
        )

    def _failed(self, error: Exception) -> StoreError:
        return StoreError(f"mining failed: {brief(error)}")


def claimed(parent: Path) -> tuple[Path, int]:
    """Makes an empty folder for this process alone; returns it, and the descriptor of its lock. Raises StoreError."""
    try:
        return parent / _NAME, _locked(parent / _NAME)
    except OSError as error:
        raise StoreError(f"cannot write to {parent}: {error.strerror}") from error


def _locked(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lock"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not try_lock(fd, path):
        os.close(fd)
        raise StoreError(f"another process mines in {folder.parent}: wait until it has ended")
    for left in folder.iterdir():
        if left.is_dir():
            shutil.rmtree(left)
        elif left != path:
            left.unlink()
    return fd


TABLES = {
    "patterns": "SELECT host, pattern, known, pages, value, deviation, uniqueness, weight "
    "FROM patterns LEFT JOIN weights USING (place) ORDER BY host, known DESC, pattern",
    "pairs": "SELECT a.host AS from_host, a.pattern AS from_pattern, b.host AS to_host, b.pattern AS to_pattern, "
    "pairs, from_pages, to_urls, uniqueness, coverage, contribution, validity "
    "FROM pairs JOIN patterns a ON a.place = from_place JOIN patterns b ON b.place = to_place "
    "ORDER BY from_host, pairs DESC, from_pattern, to_host, to_pattern",
    "blocks": "SELECT host, pattern, block, blocks.pages, links, targets, same, boilerplate "
    "FROM blocks JOIN patterns ON place = from_place ORDER BY host, links DESC, pattern, block",
    "pages": "SELECT url, host, pattern, kind, links, area, link_text, pages.text_length, share, value, "
    "rank AS hub_rank FROM pages JOIN page_kinds USING (url) JOIN urls USING (url) LEFT JOIN hubs USING (url) "
    "ORDER BY url",
    "hubs": "SELECT rank, url, new, unique_links, readings, better, sooner, score FROM hubs ORDER BY rank",
    "anchors": "SELECT url, anchors, pages, hosts FROM anchors ORDER BY url",
}
"""The queries by name of the table; docs/reference/mining.md explains the columns."""


_MOST_BEST = 10
_LEAST_PAGES = 5
# by the lower end of the confidence interval of the mean, so that few pages with luck are not the best
BEST_PATTERNS = f"""
SELECT host, pattern, pages, value FROM patterns WHERE pages >= {_LEAST_PAGES} AND value IS NOT NULL
ORDER BY value - 2 * deviation / sqrt(pages) DESC, pages DESC, pattern LIMIT {_MOST_BEST}
"""
BEST_HUBS = f"SELECT url, new, unique_links, readings FROM hubs ORDER BY rank LIMIT {_MOST_BEST}"


def write_tables(workspace: MiningTables, store: ObjectStore) -> dict[str, int]:
    """Writes all tables; returns the numbers of rows by name."""
    rows: dict[str, int] = {}
    for name, query in TABLES.items():
        path, rows[name] = workspace.exported(query, f"{name}.parquet")
        store.put_file(path.name, path)
        path.unlink()
    return rows
