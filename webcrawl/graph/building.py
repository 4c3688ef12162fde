"""Builds the graphs of a link store, one for each level (pages, hosts, domains), and writes their files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from webcrawl.config.memory import usual_memory
from webcrawl.documents.disk import failure, flush
from webcrawl.errors import StoreError
from webcrawl.graph import plots
from webcrawl.graph.database import COLUMNS, LinkDatabase
from webcrawl.graph.digraph import Digraph, Vertices, folded
from webcrawl.graph.files import VERTICES, write_texts, write_vertices
from webcrawl.graph.libraries import duckdb, pyarrow, sparse
from webcrawl.graph.measures import Measures, measured
from webcrawl.links.sources import LinkFiles
from webcrawl.urls.canonical import hostname, registered_domain
from webcrawl.urls.reversed_hosts import plain_host, reversed_host

SUMMARY = "summary.json"
_TOP, _REPORTED = 20, 10


@dataclass(frozen=True)
class GraphOptions:
    """The links of a graph, and the files to write.

    crawl       the crawl whose links are used; None for the links of all crawls
    only_hosts  whether to leave out the graph of pages
    nofollow    whether to include links with nofollow
    plots       whether to draw two plots of each graph
    memory      the bytes of memory to use; by default half of the free memory
    """

    crawl: str | None = None
    only_hosts: bool = False
    nofollow: bool = False
    plots: bool = False
    memory: int | None = None


ReportGraph: TypeAlias = Callable[[str, dict[str, Any], list[tuple[str, float]]], None]
"""Gets the name and summary of a graph, and the first of its vertices by PageRank, with their ranks."""


def build(files: LinkFiles, output: Path, wanted: GraphOptions, report: ReportGraph) -> dict[str, Any]:
    """Writes a folder with the graphs of a link store; returns the summary.

    The folder appears when it is complete. `report` is called for each graph. Raises
    StoreError if links cannot be read or the output cannot be written, and LibraryMissing.
    """
    check_libraries()
    memory = wanted.memory or usual_memory()
    with new_folder(output) as folder:
        scratch = folder / "scratch"
        scratch.mkdir()
        database = LinkDatabase(scratch / "duckdb", memory // 2, crawl=wanted.crawl, nofollow=wanted.nofollow)
        try:
            summary = _write_levels(files, folder, database, wanted, memory, report)
        finally:
            database.close()
        shutil.rmtree(scratch)
        (folder / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n")
    return summary


def check_libraries() -> None:
    """Raises LibraryMissing unless all libraries of the extra are installed."""
    for library in (duckdb, pyarrow, sparse):
        library()


def _write_levels(
    files: LinkFiles,
    folder: Path,
    database: LinkDatabase,
    wanted: GraphOptions,
    memory: int,
    report: ReportGraph,
) -> dict[str, Any]:
    database.add(_rows(files))
    pages, links = database.number()
    if not pages:
        raise no_links(wanted.crawl)
    scratch = folder / "scratch"
    summary: dict[str, Any] = {"links": links}
    for level in levels(database, pages, scratch, only_hosts=wanted.only_hosts):
        measures = measured(level.graph, scratch, memory // 3)
        _write_level(folder / level.name, level, measures, database, plot=wanted.plots)
        summary[level.name] = measures.summary()
        best = top(folder / level.name, level.columns[0], database, _REPORTED)
        report(level.name, summary[level.name], best)
    return summary


def no_links(crawl: str | None) -> StoreError:
    """Returns the error for a link store without links that count."""
    subject = f"crawl {crawl!r} has" if crawl else "the crawls have"
    return StoreError(f"{subject} stored no links that count yet: crawl with LINKS = True")


def _rows(files: LinkFiles) -> Iterator[Any]:
    """Yields the rows of all files as Arrow tables."""
    for opener in files.openers:
        file = opener()
        for group in file.groups:
            yield file.read(group, COLUMNS).select(list(COLUMNS))


def _write_level(
    folder: Path, level: Level, measures: Measures, database: LinkDatabase, *, plot: bool
) -> None:
    """Writes the folder of one graph."""
    folder.mkdir()
    write_vertices(folder, level.vertices(), measures.columns())
    write_texts(folder, level.graph, level.columns, database)
    if plot:
        series = {"links to it": measures.in_degrees, "links on it": measures.out_degrees}
        title = f"{level.name.capitalize()} with so many links or more"
        (folder / "degrees.svg").write_text(plots.degrees(title, series))
        title = f"The {level.name} with the highest PageRank"
        (folder / "top.svg").write_text(plots.top(title, top(folder, level.columns[0], database)))


def top(folder: Path, name: str, database: LinkDatabase, most: int = _TOP) -> list[tuple[str, float]]:
    """Returns the vertices of a written graph with the highest PageRank, hosts as in URLs, and their ranks."""
    query = f"SELECT {name}, pagerank FROM read_parquet($1) ORDER BY pagerank_position LIMIT {most}"
    rows = database.execute(query, [str(folder / VERTICES)]).fetchall()
    return [(label if name == "url" else plain_host(label), float(rank)) for label, rank in rows]


@contextmanager
def new_folder(output: Path) -> Iterator[Path]:
    """Yields a hidden folder that becomes `output` at the end; after an error, it is deleted."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise StoreError(f"{output} exists and is not an empty folder: name another one")
    hidden = output.absolute().parent / f".{output.name}-{os.getpid()}"
    try:
        hidden.mkdir(parents=True)
        yield hidden
        for path in [*hidden.rglob("*"), hidden]:
            flush(path)
        hidden.rename(output)
    except OSError as error:
        raise failure("write", output, error) from error
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


@dataclass(frozen=True)
class Level:
    """A graph and the names of its vertices.

    columns   the columns of the names: the first is the name, and a number may follow
    vertices  returns Arrow record batches with id, then these columns, then others
    """

    name: str
    columns: list[str]
    graph: Digraph
    vertices: Callable[[], Iterable[Any]]


def levels(database: LinkDatabase, pages: int, scratch: Path, *, only_hosts: bool) -> Iterator[Level]:
    """Yields the graphs of pages, hosts and domains. `pages`: the number of pages that the database has numbered."""
    graph = database.graph(pages, scratch / "pages.int32")
    if not only_hosts:
        yield Level("pages", ["url"], graph, database.pages)
    hosts = database.hosts()
    number = len(hosts)
    # pages are sorted by host
    host_of = np.repeat(np.arange(number, dtype=np.int32), hosts["pages"].to_numpy())
    graph = folded(graph, host_of, number, scratch / "hosts.int32")
    yield Level("hosts", ["host"], graph, hosts.to_batches)
    domains, domain_of = numbered_domains(hosts["host"].to_pylist())
    graph = folded(graph, domain_of, len(domains), scratch / "domains.int32")
    yield Level("domains", ["domain", "hosts"], graph, domains.to_batches)


def numbered_domains(hosts: list[str]) -> tuple[Any, Vertices]:
    """Returns the domains of reversed hosts as an Arrow table (id, domain, hosts), and the id of each host."""
    names = np.array([_domain(host) for host in hosts], dtype=object)
    domains, numbers, counts = np.unique(names, return_inverse=True, return_counts=True)
    ids = np.arange(len(domains), dtype=np.int32)
    table = pyarrow().table({"id": ids, "domain": domains, "hosts": counts.astype(np.int32)})
    return table, numbers.astype(np.int32)


def _domain(host: str) -> str:
    """Returns "uk.co.example" for "uk.co.example.www:8080"; an IP address is its own domain."""
    name = hostname(f"http://{plain_host(host)}/")
    return reversed_host(f"http://[{name}]/" if ":" in name else f"http://{registered_domain(name)}/")
