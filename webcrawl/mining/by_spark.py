"""Mining by Apache Spark, for more links than one machine takes.

The tables and their queries are those of `webcrawl.mining.workspace`, in the SQL that DuckDB and Spark share. Patterns
of URLs are a function of this package, which executors run over Arrow: they need Python with this package. The rows of
table `pages`, and what is learned from a sample of them, are the work of this process.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from webcrawl.config.memory import usual_memory
from webcrawl.graph.spark.session import is_local, pyspark, spark_session
from webcrawl.graph.spark.tables import SCRATCH, SparkTables, Table, hadoop_uri
from webcrawl.links.sources import LinkFiles
from webcrawl.mining.workspace import FIRST_LINKS, MiningTables, claimed, page_schema
from webcrawl.stores.tables.parquet import pyarrow

_LEAST_MEMORY = 1 << 30
_BATCH = 10_000
_STORED = (
    "from_url STRING, to_url STRING, text STRING, element STRING, block LONG, place INT, time TIMESTAMP, "
    "read_at TIMESTAMP, crawl STRING"
)
_LINKS = """
    SELECT from_url, to_url, text, element, block, place, unix_micros(time) AS time, unix_micros(read_at) AS read_at
    FROM {stored}
"""
_LATEST = """
    SELECT links.* FROM links JOIN (
        SELECT from_url, max(struct(time, coalesce(read_at, 0) AS read)) AS latest FROM links GROUP BY from_url
    ) AS readings ON readings.from_url = links.from_url AND links.time = latest.time
        AND coalesce(links.read_at, 0) = latest.read
"""
_NEW_LINKS = """
    SELECT url, depth, referrer, text_length, sound, CASE WHEN value > 0 THEN coalesce(new, 0) ELSE value END AS value
    FROM pages LEFT JOIN (
        SELECT from_url, CAST(count(*) AS DOUBLE) AS new FROM first_links GROUP BY from_url
    ) AS counted ON from_url = url
"""


@contextmanager
def spark_workspace(parent: Path, master: str) -> Iterator[SparkWorkspace]:
    """Yields a workspace in a folder that is deleted at the end; all machines of a cluster must see it.

    master  local[2] or spark://host:port

    Raises StoreError, and ConfigurationError if Spark cannot begin.
    """
    folder, lock = claimed(parent)
    memory = max(_LEAST_MEMORY, usual_memory()) if is_local(master) else None
    try:
        with spark_session(master, memory) as session:
            yield SparkWorkspace(session, folder.absolute())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


class SparkWorkspace(MiningTables):
    """The tables as views of a session over Parquet files in a folder. Methods raise errors of Spark."""

    def __init__(self, session: Any, folder: Path) -> None:
        self._session, self._folder = session, folder
        self._space = SparkTables(session, folder.as_uri())

    def create(self, name: str, query: str) -> None:
        self._add(name, self._session.sql(query))

    def ranked(self, name: str, query: str, order: str) -> None:
        numbered = self._space.numbered(self._session.sql(query), order, name, "rank", first=1)
        numbered.createOrReplaceTempView(name)

    def mapped(
        self, name: str, query: str, function: Callable[[Sequence[str]], Any], columns: Sequence[str]
    ) -> None:
        fields = ", ".join(f"{column} STRING" for column in columns)
        self._add(name, self._session.sql(query).mapInArrow(partial(_mapped, function), fields))

    def lines(self, text: str, order: str) -> str:
        return rf"listagg({text}, '\n') WITHIN GROUP (ORDER BY {order})"

    def rows(self, query: str) -> Iterator[Sequence[tuple[Any, ...]]]:
        rows = self._session.sql(query).toLocalIterator()
        while batch := [tuple(row) for row in islice(rows, _BATCH)]:
            yield batch

    def exported(self, query: str, name: str) -> tuple[Path, int]:
        self._space.written(self._session.sql(query), f"exported-{name}")
        parts = sorted((self._folder / SCRATCH / f"exported-{name}").glob("*.parquet"))
        path, rows, library = self._folder / name, 0, pyarrow().parquet
        with library.ParquetWriter(path, library.read_schema(parts[0]), compression="zstd") as writer:
            for part in parts:
                for batch in library.ParquetFile(part).iter_batches():
                    writer.write_batch(batch)
                    rows += len(batch)
        return path, rows

    def load_links(self, files: LinkFiles, crawl: str | None = None) -> None:
        stored = self._read(_STORED, [hadoop_uri(address) for address in files.addresses])
        if crawl is not None:
            stored = stored.where(pyspark().sql.functions.col("crawl") == crawl)
        self._space.sql(_LINKS, stored=stored).createOrReplaceTempView("links")
        self.create("first_links", FIRST_LINKS)
        self.create("links", _LATEST)

    def add_pages(self, tables: Iterable[Any]) -> None:
        path, schema = self._folder / "pages", page_schema()
        with pyarrow().parquet.ParquetWriter(path, schema, compression="zstd") as writer:
            for table in tables:
                writer.write_table(table)
        pages = "url STRING, depth INT, referrer STRING, text_length LONG, sound BOOLEAN, value DOUBLE"
        self._read(pages, [path.as_uri()]).createOrReplaceTempView("pages")

    def count_new_links(self) -> None:
        self.create("pages", _NEW_LINKS)

    @property
    def is_empty(self) -> bool:
        return all(self._session.table(name).isEmpty() for name in ("links", "pages"))

    def _add(self, name: str, table: Table) -> None:
        self._space.written(table, name).createOrReplaceTempView(name)

    def _read(self, fields: str, addresses: Sequence[str]) -> Table:
        if not addresses:
            return self._session.createDataFrame([], fields)
        return self._session.read.schema(fields).parquet(*addresses)


def _mapped(function: Callable[[Sequence[str]], Any], batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield function(batch.column(0).to_pylist())
