"""The graphs of a link store, one for each level: pages, hosts, domains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from webcrawl.graph.database import LinkDatabase
from webcrawl.graph.digraph import Digraph, Vertices, folded
from webcrawl.graph.libraries import pyarrow
from webcrawl.links.hosts import plain_host, reversed_host
from webcrawl.urls.canonical import hostname, registered_domain


@dataclass(frozen=True)
class Level:
    """A graph and the names of its vertices.

    columns   of the names; the first is the name, and a number may follow
    vertices  returns Arrow record batches: id, then the columns, and others
    """

    name: str
    columns: list[str]
    graph: Digraph
    vertices: Callable[[], Iterable[Any]]


def levels(database: LinkDatabase, pages: int, scratch: Path, *, only_hosts: bool) -> Iterator[Level]:
    """Yields the graphs of pages, of hosts and of domains. `pages`: how many the database has numbered."""
    graph = database.graph(pages, scratch / "pages.int32")
    if not only_hosts:
        yield Level("pages", ["url"], graph, database.pages)
    hosts = database.hosts()
    number = len(hosts)
    # pages are sorted by host
    host_of = np.repeat(np.arange(number, dtype=np.int32), hosts["pages"].to_numpy())
    graph = folded(graph, host_of, number, scratch / "hosts.int32")
    yield Level("hosts", ["host"], graph, hosts.to_batches)
    domains, domain_of = _domains(hosts["host"].to_pylist())
    graph = folded(graph, domain_of, len(domains), scratch / "domains.int32")
    yield Level("domains", ["domain", "hosts"], graph, domains.to_batches)


def _domains(hosts: list[str]) -> tuple[Any, Vertices]:
    """Returns the registered domains of reversed hosts as an Arrow table (id, domain, hosts), and that of each host."""
    names = np.array([_domain(host) for host in hosts], dtype=object)
    found, places, counts = np.unique(names, return_inverse=True, return_counts=True)
    ids = np.arange(len(found), dtype=np.int32)
    table = pyarrow().table({"id": ids, "domain": found, "hosts": counts.astype(np.int32)})
    return table, places.astype(np.int32)


def _domain(host: str) -> str:
    """Returns "uk.co.example" for "uk.co.example.www:8080"; addresses are their own domain."""
    name = hostname(f"http://{plain_host(host)}/")
    return reversed_host(f"http://[{name}]/" if ":" in name else f"http://{registered_domain(name)}/")
