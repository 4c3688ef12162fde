"""Crawls of the real documentation with importance and without, measured by the PageRank of their links.

Used by benchmarks/importance.py. Needs what the side-by-side benchmark needs, and pyarrow.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow.compute
import pyarrow.dataset

from benchmarks.linked_web import LinkedWeb, Reals, pagerank
from benchmarks.served import Web
from benchmarks.sites import available
from tests.crawls import CrawlResult, crawl_hosts

DELAY = 0.02
"""DOWNLOAD_DELAY: so the order of a host's queue counts, and not how fast the worker is."""
_SECONDS = 240.0


def crawl_documentation(importance: str) -> CrawlResult:
    """Crawls all pages and stores their links; the result's files are kept in its folder."""
    home = Path(tempfile.mkdtemp(prefix="bench-importance-"))
    web = Web("http", available(), home)
    with web.served():
        result = crawl_hosts(
            web.seeds,
            home,
            timeout=_SECONDS,
            DOWNLOAD_DELAY=DELAY,
            ALLOWED_NETWORKS="127.0.0.0/8",
            IMPORTANCE=importance,
            LINKS=True,
        )
    if result.returncode:
        raise SystemExit(f"The crawl failed:\n{result.stderr[-3000:]}")
    return result


def pages_of(result: CrawlResult) -> list[dict[str, Any]]:
    """Returns the rows of the HTML pages of a crawl in the order of their fetches."""
    pages = [row for row in result.rows() if row["status"] == 200 and row["mime_type"] == "text/html"]
    return sorted(pages, key=lambda row: row["fetched_at"])


def graph(result: CrawlResult, pages: list[dict[str, Any]]) -> LinkedWeb:
    """Returns the links between pages, each once and none to itself; pages are numbered as they are given."""
    rows = pyarrow.dataset.dataset(result.data_dir / "links").to_table(
        columns=["from_url", "to_url", "element"]
    )
    rows = rows.filter(pyarrow.compute.is_in(rows["element"], pyarrow.array(["a", "area", "link"])))
    urls = pyarrow.array([row["url"] for row in pages])
    ends = [pyarrow.compute.index_in(rows[name], urls) for name in ("from_url", "to_url")]
    known = pyarrow.compute.and_(*(pyarrow.compute.is_valid(end) for end in ends))
    sources, targets = (end.filter(known).to_numpy().astype(np.int64) for end in ends)
    keys = np.unique((sources * len(pages) + targets)[sources != targets])
    sources, targets = keys // len(pages), keys % len(pages)
    first = np.searchsorted(sources, np.arange(len(pages) + 1))
    return LinkedWeb(first, targets, np.zeros(len(pages), np.int64))


class Crawled(NamedTuple):
    """The pages of a crawl in the order of their fetches: importance, PageRank, and host of each."""

    importance: Reals
    rank: Reals
    host: npt.NDArray[np.str_]

    def of(self, host: str) -> Crawled:
        """Returns the pages of one host; their PageRank sums up to 1."""
        own = self.host == host
        return Crawled(self.importance[own], self.rank[own] / self.rank[own].sum(), self.host[own])


def crawled(importance: str) -> Crawled:
    """Crawls the documentation with a value of IMPORTANCE."""
    result = crawl_documentation(importance)
    pages = pages_of(result)
    return Crawled(
        np.array([row["importance"] or 0.0 for row in pages]),
        pagerank(graph(result, pages)),
        np.array([urlsplit(row["url"]).hostname for row in pages]),
    )
