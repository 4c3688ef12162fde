"""The tables of graphs in Spark: vertices with numbers, and edges between them.

Vertices have the numbers that DuckDB would give them: in the order of reversed hosts and URLs, byte by byte. As there,
64-bit hashes stand for URLs until pages have numbers: the probability that two of n URLs have the same hash, so that
their edges mix, is n^2 / 2^65: 3 % for 1 billion.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from webcrawl.errors import StoreError
from webcrawl.graph.libraries import pyarrow
from webcrawl.graph.spark.session import pyspark

Table: TypeAlias = Any
"""A DataFrame of pyspark."""

_SCHEMA = (
    "from_host STRING, from_url STRING, to_host STRING, to_url STRING, nofollow BOOLEAN, crawl STRING, "
    "time TIMESTAMP, read_at TIMESTAMP"
)
_LINKS = """
    SELECT from_host, from_url, to_host, to_url, {nofollow} OR NOT nofollow AS counts,
        xxhash64(from_url) AS source, struct(time, coalesce(read_at, time)) AS version
    FROM {{stored}}
"""
_PAGES = """
    SELECT source AS hash, from_url AS url, min(from_host) AS host, max(version) AS version
    FROM {links} GROUP BY source, from_url
"""
_LATEST = """
    SELECT links.source, xxhash64(links.to_url) AS target, links.to_host, links.to_url FROM {links} AS links
    JOIN (SELECT hash, max(version) AS version FROM {pages} GROUP BY hash) AS pages ON pages.hash = links.source
    WHERE links.counts AND links.version = pages.version
"""
_VERTICES = """
    SELECT min(host) AS host, url, hash FROM (
        SELECT hash, host, url FROM {pages} UNION ALL
        SELECT DISTINCT target AS hash, to_host AS host, to_url AS url FROM {latest}
    ) GROUP BY url, hash
"""
_EDGES = """
    SELECT DISTINCT sources.id AS source, targets.id AS target FROM {latest} AS link
    JOIN {vertices} AS sources ON sources.hash = link.source JOIN {vertices} AS targets ON targets.hash = link.target
    WHERE sources.id <> targets.id
"""
_FOLDED = """
    SELECT DISTINCT sources.member AS source, targets.member AS target FROM {edges} AS edge
    JOIN {members} AS sources ON sources.id = edge.source JOIN {members} AS targets ON targets.id = edge.target
    WHERE sources.member <> targets.member
"""
SCRATCH = "scratch"
"""The folder of the tables that are deleted at the end."""
_NUMBERS = 33
"""The bits of monotonically_increasing_id for the row within its partition; those above are the partition."""


def hadoop_uri(address: str) -> str:
    """Returns the URI by which Hadoop knows a file at a path or URI: its client for S3 has another scheme."""
    if "://" not in address:
        return Path(address).absolute().as_uri()
    return f"s3a{address.removeprefix('s3')}" if address.startswith("s3://") else address


class SparkTables:
    """A session and a folder for tables that are used more than once. All machines of a cluster must see the folder."""

    def __init__(self, session: Any, folder: str) -> None:
        """Takes a SparkSession and the URI of an empty folder."""
        self.session = session
        self._folder = folder
        session.sparkContext.setCheckpointDir(f"{folder}/{SCRATCH}/checkpoints")

    def sql(self, query: str, **tables: Table) -> Table:
        """Returns the result of a query over tables, which it names in braces."""
        return self.session.sql(query, **tables)

    def written(self, table: Table, name: str) -> Table:
        """Writes a table to files for this computation, and returns it as it is there."""
        return self.published(table, f"{SCRATCH}/{name}")

    def published(self, table: Table, path: str) -> Table:
        """Writes a table to the Parquet files of a folder below that of this workspace; returns it as it is there.

        Raises StoreError if not all rows are there: executors of other machines have written to disks of their own.
        """
        functions = pyspark().sql.functions
        observed = pyspark().sql.Observation()
        address = f"{self._folder}/{path}"
        seen = table.observe(observed, functions.count(functions.lit(1)).alias("rows"))
        seen.write.option("compression", "zstd").parquet(address)
        stored = self.session.read.schema(table.schema).parquet(address)
        rows = stored.count()
        if rows != observed.get["rows"]:
            raise StoreError(
                f"{address} has {rows:,} of {observed.get['rows']:,} rows: "
                "name a folder that all machines of the cluster share"
            )
        return stored

    def numbered(self, table: Table, order: str, path: str, column: str = "id", first: int = 0) -> Table:
        """Writes a table with a column of numbers from `first` in the order of some columns, as in ORDER BY.

        A window function would sort the table on a single machine.
        """
        ordered = self.sql(f"SELECT * FROM {{table}} ORDER BY {order}", table=table)
        position = pyspark().sql.functions.monotonically_increasing_id()
        sorted_rows = self.written(ordered.withColumn("position", position), f"{path}-sorted")
        counts = self.sql(
            f"SELECT position >> {_NUMBERS} AS part, count(*) AS rows FROM {{sorted}} GROUP BY part ORDER BY part",
            sorted=sorted_rows,
        ).collect()
        part_numbers = np.array([row.part for row in counts], dtype=np.int64)
        rows = np.array([row.rows for row in counts], dtype=np.int64)
        starts = first + np.cumsum(rows) - rows
        # a list instead of a table of Arrow would need Python on the executors
        table_of_parts = pyarrow().table({"part": part_numbers, "start": starts})
        parts = self.session.createDataFrame(table_of_parts)
        columns = ", ".join(f"rows.{other}" for other in table.columns)
        within = f"(rows.position & {(1 << _NUMBERS) - 1})"
        numbers = self.sql(
            f"SELECT /*+ BROADCAST(parts) */ parts.start + {within} AS {column}, {columns} FROM {{sorted}} AS rows "
            f"JOIN {{parts}} AS parts ON parts.part = rows.position >> {_NUMBERS}",
            sorted=sorted_rows,
            parts=parts,
        )
        return self.written(numbers, path)


def pages_and_edges(
    space: SparkTables, addresses: list[str], crawl: str | None, *, nofollow: bool
) -> tuple[Table, Table, int]:
    """Returns the pages (id, host, url), the edges between them (source, target), and the number of links that count.

    addresses  URIs of Parquet files of links, at least one
    crawl      the crawl whose links are used, or None
    """
    stored = space.session.read.schema(_SCHEMA).parquet(*addresses)
    if crawl is not None:
        stored = stored.where(pyspark().sql.functions.col("crawl") == crawl)
    links = space.sql(_LINKS.format(nofollow=str(nofollow).lower()), stored=stored)
    pages = space.sql(_PAGES, links=links)
    latest = space.written(space.sql(_LATEST, links=links, pages=pages), "latest")
    vertices = space.numbered(space.sql(_VERTICES, pages=pages, latest=latest), "host, url", "vertices")
    edges = space.written(space.sql(_EDGES, latest=latest, vertices=vertices), "edges-of-pages")
    return vertices, edges, latest.count()


def folded(space: SparkTables, edges: Table, members: Table, path: str) -> Table:
    """Writes the edges between groups of vertices. `members`: the group (member) of each vertex (id)."""
    return space.written(space.sql(_FOLDED, edges=edges, members=members), path)
