"""Puts pages with similar texts into clusters, and writes these as a table; docs/guide/duplicates.md explains it.

Memory: 24 bytes for each page, the texts of a row group, the pairs of the largest component (some 200 bytes each) and
its pages (some 800), and what DuckDB takes. On disk: about 2 KB for each page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from webcrawl.clusters.minhash import similarities
from webcrawl.clusters.workspace import ClusterWorkspace, Component, Pair
from webcrawl.errors import StoreError
from webcrawl.results.exports.parts import NOT_NULL, ParquetPart
from webcrawl.stores.tables.parquet import pyarrow
from webcrawl.stores.tables.store import TableFile
from webcrawl.urls.reversed_hosts import reversed_host

FIELDS: Mapping[str, str] = {
    name: kind + NOT_NULL
    for name, kind in {
        "url": "string",
        "crawl": "string",
        "host": "string",
        "cluster_id": "int64",
        "size": "int64",
        "representative": "string",
        "is_representative": "boolean",
    }.items()
}
"""The columns of the table, with types as in exports; docs/reference/duplicates.md explains them."""
_TIMES = ("fetched_at", "read_at")
_COLUMNS = ("url", "text", "crawl", *_TIMES)
_ROWS_AT_ONCE = 2_000
MOST_COMPARED = 16
"""When two clusters may be joined, so many pages of one are compared with so many of the other.

So a cluster of a million pages costs as much a page as a small one.
"""

AreSimilar = Callable[[Sequence[int], Sequence[int]], bool]


class Clustered(NamedTuple):
    """The numbers of pages, of clusters of two pages or more, and of the pages in these."""

    pages: int
    clusters: int
    in_clusters: int


def write_clusters(
    openers: Sequence[Callable[[], TableFile]], path: Path, *, least: float, crawl: str | None = None
) -> Clustered:
    """Writes the clusters of the texts in Parquet files to a Parquet file, with a row for each page of each crawl.

    Of a page that a crawl has stored several times, the last text counts. `least`: the least Jaccard similarity of two
    texts that are put into the same cluster. `crawl`: only its texts. Working files are in the folder of `path`.
    Raises StoreError, also for files without the columns url and text.
    """
    with ClusterWorkspace(path.parent) as workspace:
        for opener in openers:
            for rows in _texts(opener(), crawl):
                workspace.add(rows)
        workspace.compare(least)
        labels = components(workspace.documents(), workspace.similar)
        for component in workspace.components(labels):
            for document, representative in representatives(component, least).items():
                labels[document] = representative
        part = ParquetPart(path, FIELDS)
        for batch in workspace.clusters(labels):
            part.write(list(cluster_rows(batch)))
        part.close()
    sizes = np.unique(labels, return_counts=True)[1]
    large = sizes[sizes > 1]
    return Clustered(len(labels), len(large), int(large.sum()))


def components(documents: int, pairs: Callable[[], Iterable[Pair]]) -> NDArray[np.int64]:
    """Returns for each document the least document that pairs connect it with, in any number of steps.

    `pairs` is called several times, because they may be more than the memory takes.
    """
    labels = np.arange(documents)
    is_changed = True
    while is_changed:
        before = labels.copy()
        for first, second in pairs():
            own, other = labels[first], labels[second]
            least = np.minimum(own, other)
            np.minimum.at(labels, own, least)
            np.minimum.at(labels, other, least)
        while ((further := labels[labels]) != labels).any():
            labels = further
        is_changed = bool((labels != before).any())
    return labels


def representatives(component: Component, least: float) -> dict[int, int]:
    """Splits a component into clusters by `stars`; returns the representative of each document."""
    first, second = (numbers.tolist() for numbers in component.pairs)

    def are_similar(some: Sequence[int], others: Sequence[int]) -> bool:
        rows, columns = (
            component.sketches[np.searchsorted(component.documents, members[:MOST_COMPARED])]
            for members in (some, others)
        )
        return bool((similarities(rows[:, np.newaxis], columns) >= least).all())

    return stars(zip(first, second, strict=True), are_similar)


def stars(pairs: Iterable[tuple[int, int]], are_similar: AreSimilar) -> dict[int, int]:
    """Splits a component of similar documents into stars; returns the representative of each document in `pairs`.

    pairs        all pairs of similar documents of the component, the most similar ones first
    are_similar  returns whether the documents of two stars are similar to each other

    Every document of a star is similar to its representative. Pairs are taken in their order. The stars of a pair are
    joined if that stays true for one of their representatives, that of the larger star first, or for one of the pair,
    and if their documents are similar to each other: two neighbours of a representative may have little in common.
    """
    ordered = list(pairs)
    similar = {*ordered, *((second, first) for first, second in ordered)}
    representative = {document: document for pair in ordered for document in pair}
    members = {document: [document] for document in representative}
    for pair in ordered:
        ends = sorted({representative[each] for each in pair}, key=lambda end: (-len(members[end]), end))
        if len(ends) == 1:
            continue
        union = members[ends[0]] + members[ends[1]]
        for centre in dict.fromkeys((*ends, *sorted(pair))):
            if all((centre, document) in similar for document in union if document != centre):
                if are_similar(members[ends[0]], members[ends[1]]):
                    del members[ends[0]], members[ends[1]]
                    members[centre] = union
                    representative.update(dict.fromkeys(union, centre))
                break
    return representative


def _texts(file: TableFile, crawl: str | None) -> Iterator[Any]:
    """Yields the texts of a file as Arrow tables with the columns of `ClusterWorkspace.add`."""
    arrow = pyarrow()
    check_texts(file)
    for group in file.groups:
        rows = file.read(group, _COLUMNS)
        columns = {name: _column(rows, name) for name in _COLUMNS}
        table = arrow.table(columns).filter(arrow.compute.is_valid(columns["text"]))
        if crawl is not None:
            table = table.filter(arrow.compute.equal(table["crawl"], crawl))
        for start in range(0, len(table), _ROWS_AT_ONCE):
            yield table.slice(start, _ROWS_AT_ONCE)


def check_texts(file: TableFile) -> None:
    """Raises StoreError unless a file has the columns url and text."""
    if missing := {"url", "text"} - {*file.columns}:
        raise StoreError(f"{file.name} is no table of texts: it has no column {min(missing)}")


def _column(rows: Any, name: str) -> Any:
    """Returns a column; one that the file lacks is that of a single crawl, and of no time."""
    arrow, is_time = pyarrow(), name in _TIMES
    if name not in rows.column_names:
        return arrow.array([0 if is_time else ""] * len(rows), arrow.int64() if is_time else arrow.string())
    if is_time:
        return rows[name].cast(arrow.timestamp("us", tz="UTC")).cast(arrow.int64()).fill_null(0)
    return (
        rows[name].cast(arrow.string()) if name == "text" else rows[name].cast(arrow.string()).fill_null("")
    )


def cluster_rows(batch: Any) -> Iterator[dict[str, Any]]:
    """Yields the rows of the table for a batch of Arrow.

    Its columns are the URL and crawl of a document, those of its representative, and the size of the cluster.
    """
    for url, crawl, first_url, first_crawl, size in zip(
        *(column.to_pylist() for column in batch.columns), strict=True
    ):
        digest = xxh3_64_intdigest(f"{first_url}\0{first_crawl}".encode("utf-8", "replace"))
        yield {
            "url": url,
            "crawl": crawl,
            "host": reversed_host(url),
            "cluster_id": digest - (1 << 64) if digest >= 1 << 63 else digest,
            "size": size,
            "representative": first_url,
            "is_representative": (url, crawl) == (first_url, first_crawl),
        }
