"""Clusters of similar texts by Apache Spark, for more texts than one machine takes.

The steps are those of `webcrawl.clusters.clustering`, with the same functions, so the table is the same. Joins and
windows are Spark's SQL. Sketches, bands, similarities and stars are functions of this package, which executors run
over Arrow: they need Python with this package and the extra `clusters`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from webcrawl.clusters.clustering import Clustered, check_texts, cluster_rows, representatives
from webcrawl.clusters.minhash import BANDS, bands, rensa, signatures, similarities, sketches
from webcrawl.clusters.workspace import NEIGHBOURS, Component, sketch_matrix
from webcrawl.config.memory import usual_memory
from webcrawl.graph.spark.measures import component_labels
from webcrawl.graph.spark.session import is_local, pyspark, spark_session
from webcrawl.graph.spark.tables import SCRATCH, SparkTables, Table, hadoop_uri
from webcrawl.stores.tables.parquet import pyarrow
from webcrawl.stores.tables.store import TableFile

_LEAST_MEMORY = 1 << 30
_ROWS_AT_ONCE = 2_000
_TEXTS = "url STRING, text STRING, crawl STRING, fetched_at TIMESTAMP, read_at TIMESTAMP"
_READINGS = """
    SELECT coalesce(url, '') AS url, coalesce(crawl, '') AS crawl, coalesce(unix_micros(fetched_at), 0) AS fetched_at,
        coalesce(unix_micros(read_at), 0) AS read_at, file, row, text
    FROM {stored} WHERE text IS NOT NULL
"""
_SIGNED = "url STRING, crawl STRING, fetched_at LONG, read_at LONG, file STRING, row LONG, hashes BINARY, sketch BINARY"
_LAST = """
    SELECT url, crawl, fetched_at, hashes, sketch FROM (
        SELECT *, row_number() OVER (
            PARTITION BY url, crawl ORDER BY fetched_at DESC, read_at DESC, file DESC, row DESC
        ) AS age FROM {readings}
    ) WHERE age = 1
"""
_PAIRS = f"""
    SELECT DISTINCT first, second FROM (
        SELECT second, explode(earlier) AS first FROM (
            SELECT document AS second, array(
                first_value(document) OVER band,
                {", ".join(f"lag(document, {n}) OVER band" for n in range(1, NEIGHBOURS + 1))}
            ) AS earlier FROM {{bands}} WINDOW band AS (PARTITION BY hash ORDER BY document)
        )
    ) WHERE first < second
"""
_COMPARED = """
    SELECT first, second, a.sketch AS a, b.sketch AS b FROM {pairs} AS pairs
    JOIN {documents} AS a ON a.document = first JOIN {documents} AS b ON b.document = second
"""
_PAIR = "first LONG, second LONG, similarity DOUBLE"
_PAIRS_BY_COMPONENT = (
    "SELECT label, similar.* FROM {similar} AS similar JOIN {labels} AS labels ON id = first"
)
_DOCUMENTS_BY_COMPONENT = """
    SELECT label AS component, document, sketch FROM {labels} AS labels JOIN {documents} AS documents ON document = id
    WHERE label IN (SELECT label FROM {labels} GROUP BY label HAVING count(*) > 1)
"""
_CLUSTERS = """
    WITH labelled AS (
        SELECT documents.*, coalesce(representative, document) AS label
        FROM {documents} AS documents LEFT JOIN {stars} AS stars USING (document)
    )
    SELECT page.url AS url, page.crawl AS crawl, representative.url AS first_url, representative.crawl AS first_crawl,
        size
    FROM labelled AS page JOIN (SELECT label, count(*) AS size FROM labelled GROUP BY label) USING (label)
    JOIN {documents} AS representative ON representative.document = label
    ORDER BY page.url, page.crawl
"""
_FIELDS = (
    "url STRING NOT NULL, crawl STRING NOT NULL, host STRING NOT NULL, cluster_id LONG NOT NULL, size LONG NOT NULL, "
    "representative STRING NOT NULL, is_representative BOOLEAN NOT NULL"
)
_FIGURES = """
    SELECT count(*), count_if(is_representative AND size > 1), count_if(size > 1) FROM {written}
"""


def write_clusters_by_spark(
    openers: Sequence[Callable[[], TableFile]],
    folder: Path,
    stem: str,
    master: str,
    *,
    least: float,
    crawl: str | None = None,
) -> tuple[Clustered, dict[str, int]]:
    """Writes the clusters of texts as `write_clusters`, as Parquet files of a folder, in the order of their names.

    folder  where to write; executors must see it and the files of texts
    stem    the beginning of the names of the files
    master  local[2] or spark://host:port

    Returns the figures, and the rows of each file. Raises StoreError, and ConfigurationError if Spark cannot begin.
    """
    rensa()
    files = [opener() for opener in openers]
    for file in files:
        check_texts(file)
    memory = max(_LEAST_MEMORY, usual_memory()) if is_local(master) else None
    with spark_session(master, memory) as session:
        space = SparkTables(session, folder.absolute().as_uri())
        documents = _documents(space, [hadoop_uri(file.name) for file in files], crawl)
        similar = _similar(space, documents, least)
        representatives = _representatives(space, documents, similar, least)
        clusters = space.sql(_CLUSTERS, documents=documents, stars=representatives)
        written = space.published(clusters.mapInArrow(_rows, _FIELDS), stem)
        figures = Clustered(*space.sql(_FIGURES, written=written).first())
    shutil.rmtree(folder / SCRATCH)
    rows: dict[str, int] = {}
    for number, path in enumerate(sorted((folder / stem).glob("*.parquet"))):
        name = f"{stem}-{number:05}.parquet"
        rows[name] = pyarrow().parquet.read_metadata(path).num_rows
        path.rename(folder / name)
    shutil.rmtree(folder / stem)
    return figures, rows


def _documents(space: SparkTables, addresses: list[str], crawl: str | None) -> Table:
    """Returns the last reading of each page of a crawl: document (its number), url, crawl, hashes and sketch."""
    column = pyspark().sql.functions.col
    stored = space.session.read.schema(_TEXTS).parquet(*addresses)
    location = column("_metadata.file_path").alias("file"), column("_metadata.row_index").alias("row")
    stored = stored.select("*", *location)
    if crawl is not None:
        stored = stored.where(column("crawl") == crawl)
    readings = space.sql(_READINGS, stored=stored).mapInArrow(_signed, _SIGNED)
    last = space.sql(_LAST, readings=readings)
    return space.numbered(last, "fetched_at, url, crawl", "documents", "document")


def _similar(space: SparkTables, documents: Table, least: float) -> Table:
    """Returns the pairs of documents whose similarity is `least` or more: first, second and similarity."""
    hashes = documents.select("document", "hashes").mapInArrow(_banded, "hash LONG, document LONG")
    pairs = space.written(space.sql(_PAIRS, bands=hashes), "pairs")
    compared = space.sql(_COMPARED, pairs=pairs, documents=documents)
    return space.written(compared.mapInArrow(partial(_compared, least), _PAIR), "similar")


def _representatives(space: SparkTables, documents: Table, similar: Table, least: float) -> Table:
    """Returns the representative of each document that is similar to another document."""
    vertices = space.sql("SELECT document AS id FROM {documents}", documents=documents)
    edges = space.sql("SELECT first AS source, second AS target FROM {similar}", similar=similar)
    labels = component_labels(space, vertices, edges, "similar")
    pairs = space.sql(_PAIRS_BY_COMPONENT, similar=similar, labels=labels).groupBy("label")
    members = space.sql(_DOCUMENTS_BY_COMPONENT, documents=documents, labels=labels).groupBy("component")
    split = pairs.cogroup(members).applyInArrow(partial(_split, least), "document LONG, representative LONG")
    return space.written(split, "stars")


Batches = Iterator[Any]
"""Record batches of Arrow."""


def _parts(batches: Batches, rows: int = _ROWS_AT_ONCE) -> Batches:
    for batch in batches:
        for start in range(0, len(batch), rows):
            yield batch.slice(start, rows)


def _batch(**columns: Any) -> Any:
    return pyarrow().RecordBatch.from_pydict(columns)


def _signed(batches: Batches) -> Batches:
    """Replaces the texts of readings, in the last column, by the hashes of their bands, and their sketches."""
    arrow = pyarrow()
    for batch in _parts(batches):
        made = signatures(batch.column("text").to_pylist())
        columns = {name: batch.column(name) for name in batch.schema.names[:-1]}
        for name, rows in (("hashes", bands(made)), ("sketch", sketches(made))):
            columns[name] = arrow.array([row.tobytes() for row in rows], arrow.binary())
        yield _batch(**columns)


def _banded(batches: Batches) -> Batches:
    for batch in _parts(batches):
        hashes = np.frombuffer(b"".join(batch.column("hashes").to_pylist()), np.int64)
        yield _batch(hash=hashes, document=np.repeat(batch.column("document").to_numpy(), BANDS))


def _compared(least: float, batches: Batches) -> Batches:
    for batch in _parts(batches):
        shares = similarities(*(sketch_matrix(batch.column(name)) for name in ("a", "b")))
        pairs = _batch(first=batch.column("first"), second=batch.column("second"), similarity=shares)
        yield pairs.filter(pyarrow().array(shares >= least))


def _split(least: float, pairs: Any, documents: Any) -> Any:
    """Returns the representatives of the documents of a component, which are an Arrow table as its pairs are."""
    order = [("similarity", "descending"), ("second", "ascending"), ("first", "ascending")]
    pairs, documents = pairs.sort_by(order), documents.sort_by("document")
    ends = pairs["first"].to_numpy(), pairs["second"].to_numpy()
    component = Component(ends, documents["document"].to_numpy(), sketch_matrix(documents["sketch"]))
    split = representatives(component, least)
    columns = {"document": [*split], "representative": [*split.values()]}
    return pyarrow().table(columns)


def _rows(batches: Batches) -> Batches:
    for batch in _parts(batches):
        yield pyarrow().RecordBatch.from_pylist(list(cluster_rows(batch)))
