"""Simulates a crawl of millions of hosts without a network: the frontier and its Lua as they are, by a virtual clock.

    make simulate [ARGS="--only size --hosts 1e7 --urls 3e7 --primaries 3 --json FILE"]

`size` queues all pages of a web and fetches some of them: memory and disk for a URL and a host, processor time, hosts
due and late, and the skew between shards. `order` begins with a few seeds and crawls a smaller web by its links, until
is fetched: the share of all importance that was caught, beside other orders and a crawl without importance.
With the defaults it takes ten minutes, 2 GB of memory and 3 GB of disk.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import uvloop

from benchmarks.command import command_line, table, write_figures
from benchmarks.power_law_web import Numbers, PowerLawWeb, url_of
from benchmarks.reference_orders import KnownOrder
from benchmarks.simulated_crawl import BEGIN, SLICE, SimulatedCrawl, simulated_crawl
from webcrawl.frontier import Candidate
from webcrawl.frontier.gauges import gauges
from webcrawl.urls.canonical import Canonicalizer, split

BATCH = 2000
TOGETHER = 10
"""Pages of a host, or of hosts that follow each other, that are queued together, as a page links to them."""
SPILL_EVERY = 10
"""Batches between two looks for long queues."""
SEEDS = 100
SHARES = (0.01, 0.05, 0.2)
CURVE_POINTS = 100
LOOKS = 10
KNOWN_ORDERS: dict[str, Any] = {
    "by links so far": {},
    "by credit": {"credit": True},
    "by levels of credit": {"credit": True, "step": 8},
    "by levels, kept": {"credit": True, "step": 8, "kept": SLICE},
}
"""Orders without an engine, from one that could know most to one that knows what the crawl does."""
_SHUFFLE = 0x9E3779B1
Figures = dict[str, Any]


async def size(options: argparse.Namespace) -> Figures:
    """A frontier that holds a whole web, and a crawl that begins there."""
    web = PowerLawWeb(int(options.hosts), int(options.urls))
    print(f"size: {web.urls:,} URLs on {web.hosts:,} hosts, the largest with {web.sizes.max():,}", flush=True)
    async with simulated_crawl(
        web, **_settings(options), importance="trusted", window=options.window
    ) as crawl:
        empty, before = await crawl.at.memory(), crawl.at.cpu()
        added = await _add_all(crawl)
        memory, spent = await crawl.at.memory() - empty, (crawl.at.cpu()[0] - before[0]).sum()
        figures: Figures = {
            "urls": web.urls,
            "hosts": web.hosts,
            "largest_host": int(web.sizes.max()),
            "added_a_second": web.urls / added,
            "engine_us_an_added_url": 1e6 * spent / web.urls,
            "memory_bytes_a_url": memory / web.urls,
            "memory": memory,
            "disk": crawl.at.disk(),
        }
        return {**figures, "crawl": await _fetch(crawl, int(options.fetches))}


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(options, name) for name in ("primaries", "shards", "delay", "slice")}


async def _add_all(crawl: SimulatedCrawl) -> float:
    """Queues every page of the web; returns the seconds that it took. A batch is prepared while another is queued."""
    fingerprint, shards = Canonicalizer().fingerprint, range(crawl.frontier.keys.shards)
    began, sent = time.perf_counter(), asyncio.create_task(asyncio.sleep(0, []))
    for number, (hosts, pages) in enumerate(_batches(crawl.web)):
        candidates = []
        for host, page in zip(hosts.tolist(), pages.tolist(), strict=True):
            url = url_of(host, page)
            candidates.append(Candidate(*split(url), fingerprint(url), level=4, depth=2, rise=0))
        await sent
        await crawl.set_clock()
        for plan in await crawl.tails.plan(shards) if number % SPILL_EVERY == 0 else ():
            await crawl.tails.carry_out(plan)
        # again after a pause of the server, as a crawl does, for which a busy disk is enough
        add = partial(crawl.frontier.add, candidates)
        sent = asyncio.create_task(crawl.at.engine.retry_until_available(add))
        await asyncio.sleep(0)
    await sent
    return time.perf_counter() - began


def _batches(web: PowerLawWeb) -> Iterator[tuple[Numbers, Numbers]]:
    """Yields hosts and pages in batches: all pages of the web in an order that looks random."""
    ends, blocks, step = np.cumsum(web.sizes), -(-web.urls // TOGETHER), _SHUFFLE
    while np.gcd(step, blocks) != 1:
        step += 2
    for start in range(0, blocks, BATCH // TOGETHER):
        firsts = np.arange(start, min(start + BATCH // TOGETHER, blocks)) * step % blocks * TOGETHER
        numbers = np.add.outer(firsts, np.arange(TOGETHER)).ravel()
        numbers = numbers[numbers < web.urls]
        hosts = np.searchsorted(ends, numbers, side="right")
        yield hosts, numbers - (ends[hosts] - web.sizes[hosts])


async def _fetch(crawl: SimulatedCrawl, fetches: int) -> Figures:
    """Crawls until so many pages are fetched, or none is left; returns what that cost."""
    steps, looks, before, began = 0, [], crawl.at.cpu(), time.perf_counter()
    every = max(1, fetches // crawl.window // LOOKS)
    idle = 0
    while len(crawl.order) < fetches and idle < 10 * max(1, round(1 / crawl.delay)):
        idle = 0 if await crawl.step() else idle + 1
        steps += 1
        if steps % every == 0:
            state = await gauges(crawl.frontier)
            looks.append((state.ready, state.waiting, state.leased))
    done = max(1, len(crawl.order))
    primaries, replicas = (after - start for after, start in zip(crawl.at.cpu(), before, strict=True))
    seconds = crawl.now - BEGIN
    counts = await crawl.frontier.counts()
    return {
        "pages": len(crawl.order),
        "fetched_twice": len(crawl.order) - len(set(crawl.order)),
        "leases_lost": counts.refused + counts.reaped,
        "virtual_seconds": seconds,
        "pages_a_virtual_second": done / max(seconds, crawl.delay),
        "seconds": time.perf_counter() - began,
        "worker_us_a_page": 1e6 * crawl.cpu / done,
        "engine_us_a_page": 1e6 * primaries.sum() / done,
        "replicas_us_a_page": 1e6 * replicas.sum() / done,
        "hosts_due_waiting_leased": [round(float(part)) for part in np.mean(looks or [(0, 0, 0)], axis=0)],
        "seconds_late": _quantiles(crawl.late),
        "primary_skew": primaries.max() / primaries.mean(),
        "shard_skew": await _skew(crawl),
        "memory": await crawl.at.memory(),
        "disk": crawl.at.disk(),
    }


def _quantiles(values: list[float]) -> dict[str, float]:
    """Median, 95th percentile and most of the seconds by which hosts came again late."""
    median, high, most = np.quantile(values or [0.0], [0.5, 0.95, 1]).tolist()
    return {"hosts": len(values), "median": median, "p95": high, "most": most}


async def _skew(crawl: SimulatedCrawl) -> dict[str, float]:
    """The largest shard divided by the mean, by known URLs and by pages that were fetched."""
    keys = crawl.frontier.keys
    shards = await crawl.at.engine.hashes(keys.counters(shard) for shard in range(keys.shards))
    skew = {}
    for name in (b"seen", b"done"):
        numbers = [int(shard.get(name, 0)) for shard in shards]
        skew[name.decode()] = max(numbers) / max(1e-9, sum(numbers) / len(numbers))
    return skew


async def order(options: argparse.Namespace) -> Figures:
    """How early important pages are fetched, with importance and without, beside the best order."""
    web = PowerLawWeb(int(options.order_hosts), int(options.order_urls))
    print(f"order: {web.urls:,} URLs on {web.hosts:,} hosts", flush=True)
    fetches = int(web.urls * SHARES[-1])
    curves = {
        "best": _curve(web.all_importance()[:fetches]),
        "best and polite": _curve(web.best_polite(fetches, options.order_window)),
        **{
            name: _curve(KnownOrder(web, options.order_window, SEEDS, **knows).importance(fetches))
            for name, knows in KNOWN_ORDERS.items()
        },
    }
    costs = {}
    for importance in options.orders:
        settings = {**_settings(options), "shards": options.order_shards}
        async with simulated_crawl(
            web, **settings, importance=importance, window=options.order_window
        ) as crawl:
            await crawl.seed([url_of(host, 0) for host in range(min(SEEDS, web.hosts))])
            costs[importance] = await _fetch(crawl, fetches)
            if not crawl.order:
                raise RuntimeError("the crawl found no page to fetch")
            hosts, pages = np.array(crawl.order[:fetches]).T
            curves[importance] = _curve(web.importance(hosts, pages))
    return {"urls": web.urls, "hosts": web.hosts, "fetches": fetches, "curves": curves, "crawls": costs}


def _curve(importance: Any) -> list[float]:
    """The share of all importance that the first parts of the fetches have."""
    caught = np.cumsum(importance)
    ends = np.maximum(1, len(caught) * np.arange(1, CURVE_POINTS + 1) // CURVE_POINTS) - 1
    return [round(float(value), 4) for value in caught[ends]]


def _of_order(figures: Figures) -> str:
    rows = []
    for name, curve in figures["curves"].items():
        caught = [curve[max(0, round(CURVE_POINTS * part / SHARES[-1]) - 1)] for part in SHARES]
        rows.append((name, *(f"{value:.1%}" for value in caught)))
    return table("order |" + "|".join(f"after {part:.0%}:" for part in SHARES), rows)


def _rows(figures: Figures, prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from _rows(value, f"{prefix}{name} ")
        elif not isinstance(value, list) or len(value) < 4:
            shown = f"{value:,.4g}" if isinstance(value, float) and abs(value) < 1000 else f"{value}"
            yield prefix + name, f"{value:,.0f}" if isinstance(value, float) and abs(value) >= 1000 else shown


PARTS: dict[str, Callable[[argparse.Namespace], Awaitable[Figures]]] = {"size": size, "order": order}


def options_of(words: list[str] | None = None) -> argparse.Namespace:
    parser = command_line(
        __doc__,
        PARTS,
        json=True,
        hosts=(1e6, "hosts of `size`"),
        urls=(1e7, "URLs of `size`"),
        fetches=(5e4, "pages that `size` fetches"),
        order_hosts=(2e4, "hosts of `order`"),
        order_urls=(3e5, "URLs of `order`"),
        delay=(1.0, "virtual seconds between two requests to a host"),
        window=(1000, "hosts that `size` leases at once"),
        order_window=(200, "hosts that `order` leases at once"),
        slice=(SLICE, "URLs for which a host keeps its place"),
        shards=(64, "FRONTIER_SHARDS of `size`"),
        order_shards=(16, "FRONTIER_SHARDS of `order`"),
        primaries=(1, "more than 1: a cluster with as many replicas"),
        orders=(["trusted", "off"], "values of IMPORTANCE of `order`"),
    )
    options = parser.parse_args(words)
    counted = ("hosts", "fetches", "order_hosts", "window", "order_window", "slice", "delay")
    if min(getattr(options, name) for name in counted) <= 0:
        parser.error("numbers of hosts and pages, the window and the delay must be above 0")
    if options.urls < options.hosts or options.order_urls < options.order_hosts:
        parser.error("each host has a page: there must be as many URLs as hosts")
    shards, primaries = min(options.shards, options.order_shards), options.primaries
    if primaries < 1 or primaries == 2 or shards < primaries:
        parser.error("--primaries: 1, or 3 and more for a cluster, and at most --shards and --order-shards")
    return options


def main() -> int:
    options = options_of()
    figures = {}
    for name in options.only:
        figures[name] = uvloop.run(PARTS[name](options))
        print(table("figure | value:", _rows({k: v for k, v in figures[name].items() if k != "curves"})))
        if name == "order":
            print(_of_order(figures[name]))
    write_figures(options.json, **figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
