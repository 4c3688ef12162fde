"""Crawls real documentation, and compares the measures of its graphs with those of networkx.

    python -m benchmarks.ranks [--keep FOLDER]

Needs nginx, and Debian packages with documentation, of which it names those that are missing. Each site is a host of
its own on loopback. Its pages link to hosts elsewhere too, which are not crawled. The exit status is 1 if a measure
differs. networkx takes long for the harmonic centrality of many pages, so it computes that of SAMPLE of them.
"""

from __future__ import annotations

import argparse
import gzip
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow.parquet as parquet

from benchmarks.documentation import PORT, nginx
from benchmarks.linked_web import spearman
from benchmarks.sites import available
from webcrawl.config import StoreConfig
from webcrawl.graph import balls
from webcrawl.graph.building import Wanted, build
from webcrawl.links.hosts import plain_host
from webcrawl.links.sources import link_files

CLOSE = 1e-7
SAMPLE = 100
SHOWN = 10


def crawl(home: Path) -> None:
    """Crawls all sites that are installed, with their links, into a folder."""
    folders = [site.folder for site in available()]
    seeds = [f"http://127.0.1.{place}:{PORT}/index.html" for place in range(1, len(folders) + 1)]
    command = [
        sys.executable,
        "-m",
        "scrapy",
        "crawl",
        "broad",
        "-a",
        f"seeds={','.join(seeds)}",
        "-a",
        "scope=host",
    ]
    command += ["-s", "DOWNLOAD_DELAY=0", "-s", "LINKS=True", "-s", f"DATA_DIR={home / 'data'}"]
    with nginx(folders, home):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def graphs(home: Path, name: str) -> None:
    data = home / "data"
    files = link_files(StoreConfig(data.as_uri(), "sqlite://", data, links=(data / "links").as_uri()))
    began = time.perf_counter()
    build(files, home / name, Wanted(plots=True), lambda *_: None)
    print(f"graphs made in {time.perf_counter() - began:.1f} s")


def read(folder: Path) -> tuple[networkx.DiGraph, dict[str, Any]]:
    """A graph from its text files, and the columns of its vertices."""
    columns = parquet.read_table(folder / "vertices.parquet").to_pydict()
    graph = networkx.DiGraph()
    graph.add_nodes_from(columns["id"])
    lines = gzip.decompress((folder / "edges.txt.gz").read_bytes()).decode().splitlines()
    graph.add_edges_from(tuple(map(int, line.split("\t"))) for line in lines)
    return graph, columns


def compare(folder: Path) -> bool:
    """Prints how far the measures of a graph are from those of networkx; returns whether they are equal."""
    graph, columns = read(folder)
    began = time.perf_counter()
    theirs = {"pagerank": networkx.pagerank(graph, tol=1e-12, max_iter=1_000)}
    some = np.random.default_rng(1).permutation(len(graph))[:SAMPLE].tolist() if len(graph) > 3_000 else None
    theirs["harmonic"] = networkx.harmonic_centrality(graph, some)
    weak, strong = networkx.number_weakly_connected_components, networkx.number_strongly_connected_components
    numbers = (weak(graph), strong(graph))
    print(
        f"{folder.name}: {len(graph):,} vertices, {graph.number_of_edges():,} edges; networkx took ", end=""
    )
    print(f"{time.perf_counter() - began:.1f} s")
    good = numbers == (max(columns["component"]) + 1, max(columns["strong_component"]) + 1)
    print(
        f"  components, weak and strong: {numbers[0]:,} and {numbers[1]:,}, {'equal' if good else 'DIFFERENT'}"
    )
    for name, values in theirs.items():
        ours = np.array([columns[name][one] for one in values])
        others = np.array(list(values.values()))
        apart = float(np.abs(ours - others).max() / others.max())
        good = good and apart < CLOSE
        print(f"  {name:9} of {len(ours):,}: largest difference {apart:.1e} of the largest value", end="")
        print(f", rank correlation {spearman(np.round(ours, 9), np.round(others, 9)):.6f}")
    return good


def show(folder: Path) -> None:
    """Prints the hosts with the highest PageRank."""
    _, columns = read(folder)
    places = np.argsort(columns["pagerank_position"])[:SHOWN]
    print(
        "| host | pages | hosts that link to it | PageRank | harmonic centrality |\n|---|---:|---:|---:|---:|"
    )
    for place in places:
        row = {name: values[place] for name, values in columns.items()}
        figures = f"{row['pages']:,} | {row['in_degree']} | {row['pagerank']:.4f} | {row['harmonic']:.2f}"
        print(f"| {plain_host(row['host'])} | {figures} |")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--keep", type=Path, help="write into this folder and keep it; a crawl that is there is used"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ranks-") as temporary:
        home: Path = options.keep or Path(temporary)
        home.mkdir(exist_ok=True)
        home.chmod(0o755)  # nginx runs as another user
        if not (home / "data").exists():
            crawl(home)
        graphs(home, "graph")
        good = False not in [compare(home / "graph" / name) for name in ("pages", "hosts", "domains")]
        exact = np.array(parquet.read_table(home / "graph/pages/vertices.parquet")["harmonic"])
        balls.EXACT_COST = 0
        graphs(home, "estimated")
        estimated = np.array(parquet.read_table(home / "estimated/pages/vertices.parquet")["harmonic"])
        known = exact > 0
        off = np.sqrt(np.mean(((estimated[known] - exact[known]) / exact[known]) ** 2))
        print(f"harmonic centrality of pages by HyperBall: error {off:.1%}", end="")
        print(f", rank correlation {spearman(exact, estimated):.4f}")
        show(home / "graph" / "hosts")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
