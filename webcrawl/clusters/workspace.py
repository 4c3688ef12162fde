"""The signatures and bands of texts as tables of DuckDB, in a temporary file that may be larger than the memory.

readings   a row for each stored text: number (its place in the input), url, crawl, fetched_at and read_at in
           microseconds since 1970, and sketch (the low bytes of its signature)
bands      for each text and band: the hash of the band, and the number of the text
documents  the last reading of each page of a crawl: document (from 0, by time of the fetch, then by URL), and the
           columns of `readings`
pairs      pairs of documents that share a band: first, second
similar_pairs  those whose sketches are similar, with their similarity
components     for each document the first one that similar pairs connect it with
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from webcrawl.clusters.minhash import BANDS, HASHES, Sketches, bands, signatures, similarities, sketches
from webcrawl.config.libraries import optional
from webcrawl.config.memory import usual_memory
from webcrawl.errors import StoreError, brief
from webcrawl.stores.tables.parquet import pyarrow

NEIGHBOURS = 8
"""A document is compared with the first document of each of its bands, and with the last so many before it.

So the work grows with the documents, also if thousands have the same text.
"""
_BATCH = 20_000

Pair = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The first and the second documents of pairs."""


@dataclass(frozen=True, slots=True)
class Component:
    """Documents that similar pairs connect. `pairs`: the most similar ones first; `sketches`: those of `documents`."""

    pairs: Pair
    documents: NDArray[np.int64]
    sketches: Sketches


_TABLES = """
CREATE TABLE readings(
    number BIGINT, url TEXT, crawl TEXT, fetched_at BIGINT, read_at BIGINT, sketch BLOB
);
CREATE TABLE bands(hash BIGINT, number BIGINT);
CREATE TABLE similar_pairs(first BIGINT, second BIGINT, similarity DOUBLE);
"""
_DOCUMENTS = """
CREATE TABLE documents AS
SELECT row_number() OVER (ORDER BY fetched_at, url, crawl) - 1 AS document, * FROM (
    FROM readings QUALIFY row_number() OVER (
        PARTITION BY url, crawl ORDER BY fetched_at DESC, read_at DESC, number DESC
    ) = 1
)
"""
_PAIRS = f"""
CREATE TABLE pairs AS
WITH shared AS (
    SELECT document AS second, [
        first_value(document) OVER band, {", ".join(f"lag(document, {n}) OVER band" for n in range(1, NEIGHBOURS + 1))}
    ] AS earlier
    FROM bands JOIN documents USING (number)
    WINDOW band AS (PARTITION BY hash ORDER BY document)
)
SELECT DISTINCT first, second FROM (SELECT unnest(earlier) AS first, second FROM shared) WHERE first < second
"""
_COMPARED = """
SELECT first, second, a.sketch, b.sketch
FROM pairs JOIN documents a ON a.document = first JOIN documents b ON b.document = second
"""
_PAIRS_BY_COMPONENT = """
SELECT label, first, second FROM similar_pairs JOIN components ON document = first
ORDER BY label, similarity DESC, second, first
"""
_DOCUMENTS_BY_COMPONENT = """
SELECT label, document, sketch FROM components JOIN documents USING (document)
WHERE label IN (SELECT label FROM components GROUP BY label HAVING count(*) > 1) ORDER BY label, document
"""
_CLUSTERS = """
SELECT page.url, page.crawl, representative.url, representative.crawl, size
FROM documents AS page
JOIN labels USING (document)
JOIN (SELECT label, count(*) AS size FROM labels GROUP BY label) USING (label)
JOIN documents AS representative ON representative.document = label
ORDER BY page.url, page.crawl
"""


def duckdb() -> ModuleType:
    """Returns DuckDB; raises LibraryMissing."""
    return optional("--clusters", "duckdb", "clusters", "duckdb")


class ClusterWorkspace:
    """The tables, in a file in `folder`. Methods raise StoreError."""

    def __init__(self, folder: Path) -> None:
        self._library = duckdb()
        options = {
            # DuckDB would download extensions
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "memory_limit": f"{usual_memory()}B",
            "temp_directory": str(folder / "sorting"),
        }
        self._connection = self._library.connect(str(folder / "clusters.duckdb"), config=options)
        self._readings = 0
        self._run(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()

    def add(self, rows: Any) -> None:
        """Adds texts: an Arrow table with url, crawl, fetched_at and read_at (numbers) and text."""
        arrow = pyarrow()
        made = signatures(rows["text"].to_pylist())
        numbers = np.arange(self._readings, self._readings + len(made))
        self._readings += len(made)
        stored = arrow.array([row.tobytes() for row in sketches(made)], arrow.binary())
        added = rows.drop_columns(["text"]).append_column("number", arrow.array(numbers))
        self._insert("readings", added.append_column("sketch", stored))
        by_band = {"hash": bands(made).ravel(), "number": np.repeat(numbers, BANDS)}
        self._insert("bands", arrow.table(by_band))

    def compare(self, least: float) -> None:
        """Finds the pairs of documents whose similarity is `least` or more, after all texts were added."""
        self._run(_DOCUMENTS)
        self._run(_PAIRS)
        for batch in self._batches(_COMPARED):
            first, second = (sketch_matrix(batch.column(number)) for number in (2, 3))
            shares = pyarrow().array(similarities(first, second))
            pairs = pyarrow().Table.from_batches([batch]).select([0, 1]).append_column("similarity", shares)
            self._insert("similar_pairs", pairs.filter(pyarrow().compute.greater_equal(shares, least)))

    def similar(self) -> Iterator[Pair]:
        """Yields the similar pairs, first and second documents as arrays."""
        for batch in self._batches("SELECT first, second FROM similar_pairs"):
            yield batch.column(0).to_numpy(), batch.column(1).to_numpy()

    def components(self, labels: NDArray[np.int64]) -> Iterator[Component]:
        """Yields the components of two documents or more. `labels`: the number of the component of each document."""
        self._add_labels("components", labels)
        pairs, documents = map(self._by_label, (_PAIRS_BY_COMPONENT, _DOCUMENTS_BY_COMPONENT))
        for pair, document in zip(pairs, documents, strict=True):
            first, second = (pair[name].to_numpy() for name in ("first", "second"))
            yield Component(
                (first, second), document["document"].to_numpy(), sketch_matrix(document["sketch"])
            )

    def _by_label(self, query: str) -> Iterator[Any]:
        """Yields the rows of a query as a table for each label; they must be ordered by it."""
        waiting: list[Any] = []
        for batch in self._batches(query):
            numbers = batch.column(0).to_numpy()
            starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
            for start, end in pairwise(starts):
                if waiting and waiting[-1].column(0)[0] != batch.column(0)[start]:
                    yield pyarrow().Table.from_batches(waiting)
                    waiting = []
                waiting.append(batch.slice(start, end - start))
        if waiting:
            yield pyarrow().Table.from_batches(waiting)

    def documents(self) -> int:
        """Returns the number of documents, after `compare` has begun."""
        return int(self._run("SELECT count(*) FROM documents").fetchone()[0])

    def clusters(self, labels: NDArray[np.int64]) -> Iterator[Any]:
        """Yields record batches: URL and crawl of a document, those of its representative, and the cluster's size.

        `labels`: for each document the representative of its cluster.
        """
        self._add_labels("labels", labels)
        yield from self._batches(_CLUSTERS)

    def _add_labels(self, table: str, labels: NDArray[np.int64]) -> None:
        self._run(f"CREATE TABLE {table}(document BIGINT, label BIGINT)")
        self._insert(table, pyarrow().table({"document": np.arange(len(labels)), "label": labels}))

    def _insert(self, table: str, rows: Any) -> None:
        self._connection.register("added", rows)
        self._run(f"INSERT INTO {table} BY NAME SELECT * FROM added")
        self._connection.unregister("added")

    def _batches(self, query: str) -> Iterator[Any]:
        # a separate connection, so that other queries may run meanwhile
        cursor = self._connection.cursor()
        try:
            yield from cursor.sql(query).to_arrow_reader(_BATCH)
        except (self._library.Error, pyarrow().ArrowException, OSError) as error:
            raise self._failed(error) from error
        finally:
            cursor.close()

    def _run(self, query: str, values: Sequence[object] = ()) -> Any:
        try:
            return self._connection.execute(query, values)
        except self._library.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> StoreError:
        return StoreError(f"clusters cannot be computed: {brief(error)}")


def sketch_matrix(column: Any) -> Sketches:
    """Returns a column of sketches as numbers."""
    return np.frombuffer(b"".join(column.to_pylist()), np.uint8).reshape(-1, HASHES)
