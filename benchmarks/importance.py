"""Measures the importance of pages on a generated web: `make bench-importance [ARGS="--pages 1e5 --json FILE"]`.

Crawls the web in several orders, without a network, and prints which part of the PageRank has been fetched after 5, 10,
20 and 40 % of the pages; then how well the importance of pages agrees with PageRank at the end. `aopic` uses the
arithmetic of webcrawl.policies.importance as the engine does: eight levels of queues, Lambda's credit in 16 shards by
host, and credit that arrives in batches. `opic` is the same in one process, with far more
levels and no delay. A full run takes about five minutes and 2 GB. With `--documentation`, real documentation is crawled
from nginx instead, with importance and without, and the PageRank is that of the links that the crawl stored.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import command_line, today, write_figures
from benchmarks.crawled_importance import crawled
from benchmarks.credited_crawls import in_levels, page_by_page
from benchmarks.linked_web import LinkedWeb, Reals, linked_web, pagerank, spearman
from benchmarks.sites import SITES

SHARES = (0.05, 0.1, 0.2, 0.4)
LEAST_CORRELATION = 0.9
MOST_POINTS_BEHIND = 0.05
CURVE_POINTS = 100
LARGE_SITE = 500
"""Pages of a site whose figures are printed."""


def breadth_first(web: LinkedWeb) -> list[int]:
    return _walk(web, deque.popleft)


def depth_first(web: LinkedWeb) -> list[int]:
    return _walk(web, deque.pop)


def at_random(web: LinkedWeb) -> list[int]:
    dice = random.Random(1)

    def take(waiting: deque[int]) -> int:
        index = dice.randrange(len(waiting))
        waiting[index], waiting[-1] = waiting[-1], waiting[index]
        return waiting.pop()

    # a list, because a deque is slow in its middle
    return _walk(web, take, list)  # type: ignore[arg-type]


def _walk(
    web: LinkedWeb, take: Callable[[Any], int], container: Callable[[list[int]], Any] = deque
) -> list[int]:
    """Returns the pages in the order of a crawl that queues each page when it is first found."""
    waiting, seen, order = container([0]), bytearray(web.pages), []
    seen[0] = 1
    while waiting:
        page = take(waiting)
        order.append(page)
        for target in web.links(page):
            if not seen[target]:
                seen[target] = 1
                waiting.append(target)
    return order


def curve(order: Sequence[int], rank: Reals) -> list[float]:
    """Returns which part of the rank the first hundredths of the crawl have fetched."""
    fetched = np.cumsum(rank[np.asarray(order)])
    ends = [len(rank) * (point + 1) // CURVE_POINTS - 1 for point in range(CURVE_POINTS)]
    return [round(float(fetched[end]), 4) for end in ends]


def measure(pages: int, seed: int) -> dict[str, Any]:
    """Crawls in all orders; returns the curves, and the correlations of importance and of incoming links."""
    web = linked_web(pages, seed)
    rank = pagerank(web)
    crawls: dict[str, Callable[[], list[int]]] = {
        "breadth-first": lambda: breadth_first(web),
        "depth-first": lambda: depth_first(web),
        "random": lambda: at_random(web),
        "oracle": lambda: np.argsort(-rank, kind="stable").tolist(),
    }
    curves = {}
    for name, crawl in crawls.items():
        curves[name] = _printed(name, curve(crawl(), rank))
    exact, ours = page_by_page(web), in_levels(web)
    curves["opic"] = _printed("opic", curve(exact.order, rank))
    curves["aopic"] = _printed("aopic", curve(ours.order, rank))
    incoming = np.bincount(web.targets, minlength=pages).astype(np.float64)
    return {
        "pages": pages,
        "links": len(web.targets),
        "seed": seed,
        "curves": curves,
        "spearman": {
            "aopic": round(spearman(ours.importance(), rank), 4),
            "opic": round(spearman(exact.importance(), rank), 4),
            "a plain sum of credit": round(spearman(np.array(ours.sums, np.float64), rank), 4),
            "incoming links": round(spearman(incoming, rank), 4),
        },
        "raised": round(ours.raised / pages, 3),
    }


def measure_documentation() -> dict[str, Any]:
    """Crawls the documentation with importance and without; returns curves and correlations of large sites and all."""
    ours, others = crawled("aopic"), crawled("off")
    names = {site.address: site.name for site in SITES}
    curves, correlations = {}, {}
    for address, pages in Counter(ours.host.tolist()).items():
        if pages >= LARGE_SITE:
            own = ours.of(address)
            curves[names[address]] = _three_curves(names[address], own.rank, others.of(address).rank)
            correlations[names[address]] = round(spearman(own.importance, own.rank), 4)
    curves["all"] = _three_curves("all", ours.rank, others.rank)
    correlations["all"] = round(spearman(ours.importance, ours.rank), 4)
    return {
        "pages": len(ours.rank),
        "curves": curves,
        "spearman": correlations,
    }


def _three_curves(name: str, ours: Reals, others: Reals) -> dict[str, list[float]]:
    best = np.argsort(-ours, kind="stable").tolist()
    return {
        "oracle": _printed(f"{name}, oracle", curve(best, ours)),
        "aopic": _printed(f"{name}, aopic", curve(range(len(ours)), ours)),
        "off": _printed(f"{name}, off", curve(range(len(others)), others)),
    }


def _printed(name: str, points: list[float]) -> list[float]:
    values = "  ".join(f"{share:.0%}: {points[round(share * CURVE_POINTS) - 1]:.3f}" for share in SHARES)
    print(f"{time.strftime('%H:%M:%S')}  {name:18}  {values}", flush=True)
    return points


def main() -> int:
    parser = command_line(__doc__)
    parser.add_argument("--pages", type=float, default=1e6, help="pages of the web (default: a million)")
    parser.add_argument("--seed", type=int, default=1, help="number of the web (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    parser.add_argument("--documentation", action="store_true", help="crawl real documentation instead")
    options = parser.parse_args()
    figures = measure_documentation() if options.documentation else measure(int(options.pages), options.seed)
    for name, value in figures["spearman"].items():
        print(f"Spearman correlation of {name} with PageRank: {value}")
    if options.json:
        write_figures(options.json, today(), **figures)
    if options.documentation:
        return 0 if figures["spearman"]["all"] >= LEAST_CORRELATION else 1
    print(f"URLs that were queued again at a better level, for each page: {figures['raised']}")
    at = round(0.2 * CURVE_POINTS) - 1
    ours, exact, breadth = (figures["curves"][name][at] for name in ("aopic", "opic", "breadth-first"))
    good = figures["spearman"]["aopic"] >= LEAST_CORRELATION
    return 0 if good and ours > breadth and ours > exact - MOST_POINTS_BEHIND else 1


if __name__ == "__main__":
    sys.exit(main())
