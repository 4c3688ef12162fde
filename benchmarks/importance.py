"""How early important pages are fetched: documentation is crawled from nginx with importance and without.

    make bench-importance [ARGS="--json FILE"]

Prints which part of the PageRank of a site's pages was fetched after 5, 10, 20 and 40 % of them, and how well the
importance of its pages agrees with PageRank at the end. PageRank is that of the links that the crawl
stored. The exit status is 1 if the two do not agree. Needs what the side-by-side benchmark needs.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import networkx
import numpy as np
import numpy.typing as npt
import pyarrow.dataset
from scipy.stats import spearmanr

from benchmarks.command import command_line, table, write_figures
from benchmarks.served import crawl_documentation
from benchmarks.sites import SITES

SHARES = (0.05, 0.1, 0.2, 0.4)
LEAST_CORRELATION = 0.9
CURVE_POINTS = 100
DEFAULT = "trusted"
DAMPING = 0.9
LARGE_SITE = 500
"""Pages of a site whose figures are printed."""
DELAY = 0.02
"""DOWNLOAD_DELAY: so the order of a host's queue counts, and not how fast the worker is."""
Reals = npt.NDArray[np.float64]


class RankedPages(NamedTuple):
    """Pages in the order of their fetches: the importance and the PageRank of each."""

    importance: Reals
    rank: Reals

    def curve(self, order: Iterable[int] | None = None) -> list[float]:
        """Which part of the rank the first hundredths of the pages have, in this order or that of the fetches."""
        ranks = self.rank if order is None else self.rank[list(order)]
        fetched = np.cumsum(ranks) / ranks.sum()
        ends = [len(ranks) * (point + 1) // CURVE_POINTS - 1 for point in range(CURVE_POINTS)]
        return [round(float(fetched[end]), 4) for end in ends]


def crawl(importance: str) -> dict[str, RankedPages]:
    """Crawls the documentation with a value of IMPORTANCE; returns the pages of large sites, and of all."""
    with tempfile.TemporaryDirectory(prefix="bench-importance-") as folder:
        result = crawl_documentation(Path(folder), DOWNLOAD_DELAY=DELAY, LINKS=True, IMPORTANCE=importance)
        links = pyarrow.dataset.dataset(result.data_dir / "links").to_table().to_pylist()
        rows = sorted(result.rows(), key=lambda row: row["fetched_at"])
    pages = [row for row in rows if row["status"] == 200 and row["mime_type"] == "text/html"]
    ranks = pagerank([row["url"] for row in pages], links)
    importances = np.array([row["importance"] or 0.0 for row in pages])
    rank = np.array([ranks[row["url"]] for row in pages])
    hosts = np.array([urlsplit(row["url"]).hostname for row in pages])
    chosen = {site.name: hosts == site.address for site in SITES}
    large = {name: which for name, which in chosen.items() if which.sum() >= LARGE_SITE}
    return {
        name: RankedPages(importances[which], rank[which])
        for name, which in {**large, "all": np.ones(len(pages), bool)}.items()
    }


def pagerank(urls: Sequence[str], links: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The PageRank of pages by the links between them, each counted once."""
    graph, known = networkx.DiGraph(), frozenset(urls)
    graph.add_nodes_from(urls)
    for link in links:
        source, target = link["from_url"], link["to_url"]
        if link["element"] in ("a", "area", "link") and source != target and {source, target} <= known:
            graph.add_edge(source, target)
    return dict(networkx.pagerank(graph, DAMPING))


def curves(crawls: dict[str, RankedPages]) -> dict[str, list[float]]:
    """The curve of each order: the best one, and those of the crawls."""
    ours = crawls[DEFAULT]
    best = np.argsort(-ours.rank, kind="stable").tolist()
    return {"oracle": ours.curve(best)} | {value: pages.curve() for value, pages in crawls.items()}


def main() -> int:
    options = command_line(__doc__, json=True).parse_args()
    crawls = {value: crawl(value) for value in (DEFAULT, "aopic", "off")}
    ours = crawls[DEFAULT]
    orders = {name: curves({value: sites[name] for value, sites in crawls.items()}) for name in ours}
    rows = [
        (name, order, *(f"{points[round(share * CURVE_POINTS) - 1]:.1%}" for share in SHARES))
        for name, of_site in orders.items()
        for order, points in of_site.items()
    ]
    print(table("site | order |" + "|".join(f"{share:.0%}:" for share in SHARES), rows))
    agreement = {
        name: round(float(spearmanr(pages.importance, pages.rank).statistic), 4)
        for name, pages in ours.items()
    }
    print(f"Spearman's correlation of importance with PageRank: {agreement}")
    figures = {"pages": len(ours["all"].rank), "curves": orders, "spearman": agreement}
    write_figures(options.json, **figures)
    return 0 if agreement["all"] >= LEAST_CORRELATION else 1


if __name__ == "__main__":
    sys.exit(main())
