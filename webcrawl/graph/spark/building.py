"""Builds the graphs of a link store in Spark, and writes their files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from webcrawl.config.memory import usual_memory
from webcrawl.graph.building import SUMMARY, GraphOptions, ReportGraph, new_folder, no_links, numbered_domains
from webcrawl.graph.files import VERTICES
from webcrawl.graph.libraries import pyarrow
from webcrawl.graph.measures import DAMPING, TOLERANCE
from webcrawl.graph.spark.measures import measured
from webcrawl.graph.spark.session import is_local, spark_session
from webcrawl.graph.spark.tables import SCRATCH, SparkTables, Table, folded, hadoop_uri, pages_and_edges
from webcrawl.links.sources import LinkFiles
from webcrawl.urls.reversed_hosts import plain_host

_REPORTED = 10
_LEAST_MEMORY = 1 << 30
"""The bytes of memory below which Spark itself has too little."""
_VERTICES = """
    SELECT vertex.id, {names}, in_degree, out_degree, pagerank, pagerank_position, component, component_size
    FROM {{vertices}} AS vertex JOIN {{ranks}} AS ranks ON ranks.id = vertex.id
    JOIN {{components}} AS components ON components.id = vertex.id ORDER BY vertex.id
"""
_FIGURES = """
    SELECT count(*) AS vertices, sum(out_degree) AS edges, count_if(out_degree = 0) AS dangling,
        max(in_degree) AS largest_in_degree, max(out_degree) AS largest_out_degree,
        max(component) + 1 AS components, max(component_size) AS largest_component FROM {written}
"""
_EDGES = "SELECT source, target FROM {edges} ORDER BY source, target"
_HOSTS = "SELECT host, count(*) AS pages FROM {pages} GROUP BY host"
_MEMBERS = (
    "SELECT page.id, host.id AS member FROM {pages} AS page JOIN {hosts} AS host ON host.host = page.host"
)


@dataclass(frozen=True)
class SparkLevel:
    """A graph as tables: the vertices with an id and `columns`, of which the first is their name, and the edges."""

    name: str
    columns: list[str]
    vertices: Table
    edges: Table


def build_by_spark(
    files: LinkFiles, output: Path, wanted: GraphOptions, master: str, report: ReportGraph
) -> dict[str, Any]:
    """Writes a folder with the graphs of a link store, as `webcrawl.graph.building.build`; returns the summary.

    The folder has Parquet files alone, without harmonic centrality and strong components. `master`: local[2] or
    spark://host:port. Raises StoreError, and ConfigurationError if Spark cannot begin.
    """
    memory = wanted.memory or (max(_LEAST_MEMORY, usual_memory()) if is_local(master) else None)
    with spark_session(master, memory) as session, new_folder(output) as folder:
        space = SparkTables(session, folder.as_uri())
        addresses = [hadoop_uri(address) for address in files.addresses]
        if not addresses:
            raise no_links(wanted.crawl)
        pages, edges, links = pages_and_edges(space, addresses, wanted.crawl, nofollow=wanted.nofollow)
        if pages.isEmpty():
            raise no_links(wanted.crawl)
        summary: dict[str, Any] = {"engine": master, "links": links}
        for level in _levels(space, pages, edges, only_hosts=wanted.only_hosts):
            written, summary[level.name] = _write_level(space, level)
            report(level.name, summary[level.name], _top(space, written, level.columns[0]))
        shutil.rmtree(folder / SCRATCH)
        for checksum in folder.rglob(".*.crc"):
            checksum.unlink()
        (folder / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n")
    return summary


def _levels(space: SparkTables, pages: Table, edges: Table, *, only_hosts: bool) -> Iterator[SparkLevel]:
    """Yields the graphs of pages, hosts and domains."""
    if not only_hosts:
        yield SparkLevel("pages", ["url", "host"], pages, edges)
    hosts = space.numbered(space.sql(_HOSTS, pages=pages), "host", "hosts")
    edges = folded(space, edges, space.sql(_MEMBERS, pages=pages, hosts=hosts), "edges-of-hosts")
    yield SparkLevel("hosts", ["host", "pages"], hosts, edges)
    # the list of public suffixes is here; the executors of a cluster have no Python
    names = space.sql("SELECT host FROM {hosts} ORDER BY id", hosts=hosts).toArrow()["host"].to_pylist()
    domains, domain_of = numbered_domains(names)
    ids = np.arange(len(names), dtype=np.int64)
    member = pyarrow().table({"id": ids, "member": domain_of.astype(np.int64)})
    members = space.written(space.session.createDataFrame(member), "domain-of-host")
    edges = folded(space, edges, members, "edges-of-domains")
    yield SparkLevel("domains", ["domain", "hosts"], space.session.createDataFrame(domains), edges)


def _write_level(space: SparkTables, level: SparkLevel) -> tuple[Table, dict[str, Any]]:
    """Writes the files of a graph; returns its vertices with all measures, and its summary."""
    measures = measured(space, level.vertices, level.edges, level.name)
    query = _VERTICES.format(names=", ".join(f"vertex.{column}" for column in level.columns))
    tables = {"vertices": level.vertices, "ranks": measures.ranks, "components": measures.components}
    written = space.published(space.sql(query, **tables), f"{level.name}/{VERTICES}")
    space.published(space.sql(_EDGES, edges=level.edges), f"{level.name}/edges.parquet")
    figures = space.sql(_FIGURES, written=written).first().asDict()
    ended = {"damping": DAMPING, "tolerance": TOLERANCE, "iterations": measures.iterations}
    return written, figures | {"pagerank": ended}


def _top(space: SparkTables, written: Table, name: str) -> list[tuple[str, float]]:
    """Returns the vertices with the highest PageRank, hosts as in URLs, and their ranks."""
    query = f"SELECT {name}, pagerank FROM {{written}} ORDER BY pagerank_position LIMIT {_REPORTED}"
    rows = space.sql(query, written=written).collect()
    return [(label if name == "url" else plain_host(label), rank) for label, rank in rows]
