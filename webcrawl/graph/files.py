"""The files of one graph: the files of a Common Crawl web graph, and a Parquet file with all measures.

    vertices.txt.gz     id, name                                     in the order of ids
    edges.txt.gz        from id, to id                               in that order
    ranks.txt.gz        ranks and values of harmonic centrality and PageRank, name; by harmonic centrality
    vertices.parquet    all columns of the vertices, and all measures

In text files, columns are separated by tabs.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from webcrawl.graph.database import LinkDatabase
from webcrawl.graph.digraph import Digraph
from webcrawl.graph.libraries import pyarrow

VERTICES = "vertices.parquet"
_FAST = 1
_RANKS = ("harmonic_position", "harmonic", "pagerank_position", "pagerank")
_HEADER = ("#harmonicc_pos", "#harmonicc_val", "#pr_pos", "#pr_val")
_GROUP_ROWS = 1 << 17


def write_vertices(folder: Path, batches: Iterable[Any], columns: dict[str, npt.NDArray[Any]]) -> None:
    """Writes the Parquet file of the vertices; raises OSError.

    batches  Arrow record batches of ids, from 0, and names
    columns  the values of all vertices by the name of the column
    """
    arrow, start, writer = pyarrow(), 0, None
    try:
        for batch in batches:
            table = arrow.Table.from_batches([batch])
            for name, values in columns.items():
                table = table.append_column(name, arrow.array(values[start : start + len(batch)]))
            start += len(batch)
            writer = writer or arrow.parquet.ParquetWriter(
                folder / VERTICES, table.schema, compression="zstd"
            )
            writer.write_table(table, _GROUP_ROWS)
    finally:
        if writer is not None:
            writer.close()


def write_texts(folder: Path, graph: Digraph, names: list[str], database: LinkDatabase) -> None:
    """Writes the text files from the Parquet file of the vertices; raises OSError and StoreError.

    names  the columns for a vertex: its name as in Common Crawl, and for domains the number of hosts
    """
    columns, path = ", ".join(names), [str(folder / VERTICES)]
    lines = database.batches(f"SELECT id, {columns} FROM read_parquet($1) ORDER BY id", path)
    _write(folder / "vertices.txt.gz", lines)
    _write(folder / "edges.txt.gz", _edges(graph))
    named = {"host": "#host_rev", "domain": "#host_rev", "hosts": "#n_hosts"}
    header = [*_HEADER, *(named.get(name, f"#{name}") for name in names)]
    query = f"SELECT {', '.join(_RANKS)}, {columns} FROM read_parquet($1) ORDER BY harmonic_position"
    _write(folder / "ranks.txt.gz", database.batches(query, path), header)


def _edges(graph: Digraph) -> Iterator[Any]:
    for start, end in graph.blocks():
        sources, targets = graph.block(start, end)
        yield pyarrow().record_batch({"from": sources, "to": np.asarray(targets)})


def _write(path: Path, batches: Iterable[Any], header: list[str] | None = None) -> None:
    with gzip.open(path, "wb", compresslevel=_FAST) as file:
        if header:
            file.write(("\t".join(header) + "\n").encode())
        for batch in batches:
            file.write(_lines(batch))


def _lines(batch: Any) -> memoryview:
    """Returns the columns of a record batch as text."""
    arrow = pyarrow()
    columns = [column.cast(arrow.string()) for column in batch.columns]
    ended = arrow.compute.binary_join_element_wise(columns.pop(), "", "\n")
    rows = arrow.compute.binary_join_element_wise(*columns, ended, "\t")
    # the rows follow one another in a buffer, which may be longer
    _, ends, text = rows.buffers()
    return memoryview(text or b"")[: np.frombuffer(ends, dtype=np.int32)[len(batch)] if len(batch) else 0]
