"""How fresh a real crawl keeps pages that change: the product, and servers on loopback whose log is the witness.

    make bench-recrawl CRAWL="--hosts 2 --day 20 --cycles 5 --json FILE"

Crawls the pages of `changing_web` with RECRAWL. A day takes `--day` seconds, for the servers and for the arithmetic of
the crawl; its planner looks ahead, and sets the threshold, every few of its turns, and not once a minute. Each host
bears a fetch of each page in 7 days, by DOWNLOAD_DELAY. Sitemaps of half of the hosts have `lastmod`, of which half is
false. The weights of pages are in RECRAWL_WEIGHTS, and the servers do not know them.

The versions that the crawl had at each time follow from the log and from the changes that the servers made. Prints the
freshness in each cycle after the first, by weight and not. The other policies have fetched all pages at the beginning,
and then have as many fetches of each host as the crawl made, those of its sitemap included. The exit status is 1 if the
crawl misses a bar in the last half.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from argparse import Namespace
from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.changing_web import HOST_PAGES, ChangingWeb, Integers, Reals, changing_web
from benchmarks.command import ROOT, SETTINGS, command_line, table, web_crawl, write_figures
from benchmarks.recrawl import optimum, priced, steady
from benchmarks.servers import free_dns_port, free_port, requests, serving
from benchmarks.trap_sites import html, prose, serve_prose

LEAST_OF_OPTIMUM, LEAST_OF_UNIFORM = 0.9, 0.98
CYCLE = 7.0
"""Days in which a host bears a fetch of each of its pages."""
ENDING_SECONDS = 120
SECTIONS = ("news", "shop", "wiki", "blog", "docs")
SHORT_DAYS = """
from webcrawl.policies import change_rates
change_rates.DAY = {}
from datetime import timedelta
from webcrawl.worker import recrawl_planner
recrawl_planner._MINUTE, recrawl_planner._AHEAD = 4.0, timedelta(seconds=4)
from scrapy.cmdline import execute
execute()
"""
NAME = re.compile(r"www\.changing(\d+)\.test")


class Sites:
    """The hosts of a web at a port. Days are counted from the first request, and take so many seconds."""

    def __init__(self, web: ChangingWeb, port: int, day: float) -> None:
        self.web, self.port, self.day = web, port, day
        self.paths = [
            f"/{SECTIONS[pattern % len(SECTIONS)]}/page-{page}.html"
            for page, pattern in enumerate(web.patterns.tolist())
        ]
        places = zip(web.hosts.tolist(), self.paths, strict=True)
        self.pages = {place: page for page, place in enumerate(places)}
        self._began: datetime | None = None

    def url(self, page: int) -> str:
        return f"http://www.changing{self.web.hosts[page]}.test:{self.port}{self.paths[page]}"

    def address(self, name: str) -> bytes | None:
        known = NAME.fullmatch(name)
        return bytes([127, 41, 0, int(known[1]) + 1]) if known else None

    def page(self, name: str, path: str) -> str | None:
        """Returns a page as it is now, or the robots.txt or the sitemap of a host."""
        self._began = self._began or datetime.now(UTC)
        host, day = int(NAME.fullmatch(name)[1]), (datetime.now(UTC) - self._began).total_seconds() / self.day  # type: ignore[index]
        if path == "/robots.txt":
            announces = self.web.announces[host * HOST_PAGES]
            return f"Sitemap: http://{name}:{self.port}/sitemap.xml\n" if announces else ""
        if path == "/sitemap.xml":
            return self.sitemap(host, day, self._began)
        page = self.pages.get((host, path))
        if page is None:
            return None
        version = bisect_right(self.web.changes[page], day)
        return html(f"Page {page}", prose().phrases(15, page, version), ())

    def sitemap(self, host: int, day: float, began: datetime) -> str:
        """Returns the sitemap of a host on this day, which began at this time."""
        lines = []
        for page in np.flatnonzero(self.web.hosts == host).tolist():
            announced = self.web.announcements[page]
            known = bisect_right(announced, day)
            changed = began + timedelta(seconds=float(announced[known - 1]) * self.day) if known else None
            dated = f"<lastmod>{changed.isoformat()}</lastmod>" if changed else ""
            lines.append(f"<url><loc>{self.url(page)}</loc>{dated}</url>")
        return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{"".join(lines)}</urlset>'


class Crawled(NamedTuple):
    """The requests of a crawl: pages, days and hosts. The page is -1 for robots.txt and sitemaps."""

    pages: Integers
    days: Reals
    hosts: Integers


def crawl(options: Namespace, web: ChangingWeb) -> Crawled:
    """Crawls the web; returns the requests that its servers had."""
    names, sites = free_dns_port(), Sites(web, free_port("0.0.0.0"), options.day)
    seconds, urls = options.day * CYCLE * options.cycles, [*map(sites.url, range(len(web.weights)))]
    with tempfile.TemporaryDirectory(prefix="bench-recrawl-", ignore_cleanup_errors=True) as folder:
        home, log = Path(folder), Path(folder) / "log"
        weights = "\n".join(f"{url} {weight:.6g}" for url, weight in zip(urls, web.weights, strict=True))
        (home / "weights").write_text(weights)
        python, _, _, *words = web_crawl(
            home,
            urls,
            names,
            options.set,
            RECRAWL=True,
            RECRAWL_MIN_INTERVAL=options.day / 24,
            RECRAWL_WEIGHTS=f"@{home / 'weights'}",
            IMPORTANCE="off",
            SITEMAPS_FROM_ROBOTS=True,
            DOWNLOAD_DELAY=CYCLE * options.day / HOST_PAGES,
            CLOSESPIDER_TIMEOUT=seconds,
            LOG_LEVEL="WARNING",
        )
        with serving(serve_prose, sites, names, log):
            command = [python, "-c", SHORT_DAYS.format(options.day), *words]
            subprocess.run(command, cwd=ROOT, check=True, timeout=seconds + ENDING_SECONDS)
        asked = [(moment, *text.split()[:2]) for moment, text in requests(log)]
    hosts = [int(NAME.match(authority)[1]) for _, authority, _ in asked]  # type: ignore[index]
    pages = [sites.pages.get((host, path), -1) for host, (_, _, path) in zip(hosts, asked, strict=True)]
    days = [(moment - asked[0][0]) / options.day for moment, _, _ in asked]
    return Crawled(np.array(pages), np.array(days), np.array(hosts))


def visits_of_hosts(
    web: ChangingWeb, fetches: Reals, rates_of: Callable[[ChangingWeb, float], Reals]
) -> Reals:
    """Returns the visits a day of each page by a policy for one host, if hosts have so many fetches a day."""
    visits = np.zeros(len(web.weights))
    for host, number in enumerate(fetches):
        own = web.hosts == host
        visits[own] = rates_of(web._replace(weights=web.weights[own], rates=web.rates[own]), number)
    return visits


def curves_of(web: ChangingWeb, crawled: Crawled, cycles: int) -> dict[str, tuple[Reals, Reals]]:
    """Returns name of a policy -> freshness in each cycle after the first, by weight and with equal weights."""
    last, random, every = CYCLE * cycles, np.random.default_rng(0), np.arange(len(web.weights))
    later = crawled.days > CYCLE
    fetches = np.bincount(crawled.hosts[later], minlength=web.hosts[-1] + 1) / (last - CYCLE)
    best = visits_of_hosts(web, fetches, lambda part, number: priced(partial(optimum, part), number))
    even = visits_of_hosts(
        web, fetches, lambda part, number: np.full(len(part.rates), number / len(part.rates))
    )
    schedules = {"uniform": steady(random, even, last), "optimum": steady(random, best, last)}
    schedules = {
        name: (np.append(every, pages), np.append(np.zeros(len(every)), days))
        for name, (pages, days) in schedules.items()
    }
    is_page = crawled.pages >= 0
    schedules["webcrawl"] = crawled.pages[is_page], crawled.days[is_page]
    print(f"{fetches.sum():.1f} fetches a day, {1 - is_page.mean():.1%} of them of sitemaps", file=sys.stderr)
    edges, equal = np.linspace(CYCLE, last, cycles), web._replace(weights=np.ones(len(every)))
    return {
        name: (web.freshness(*schedule, edges), equal.freshness(*schedule, edges))
        for name, schedule in schedules.items()
    }


def main() -> int:
    parser = command_line(
        __doc__,
        json=True,
        hosts=(4, f"each with {HOST_PAGES} pages"),
        day=(16.0, "seconds"),
        cycles=(4, "of 7 days, the first included"),
        zipf=(1.0, "exponent of the weights; 0: all are the same"),
        seed=2,
        set=SETTINGS,
    )
    options = parser.parse_args()
    last = CYCLE * options.cycles
    web = changing_web(options.hosts * HOST_PAGES, -CYCLE, last, options.zipf, options.seed)
    curves = curves_of(web, crawl(options, web), options.cycles)
    half = options.cycles // 2
    means = {name: [fresh[half:].mean() for fresh in both] for name, both in curves.items()}
    rows = [
        [name, *(f"{fresh:.3f}" for fresh in (*curves[name][0], *means[name]))]
        for name in ("uniform", "optimum", "webcrawl")
    ]
    heads = [*(f"cycle {number}:" for number in range(2, options.cycles + 1)), "last half:", "equal weights:"]
    print(table(" | ".join(["policy", *heads]), rows))
    figures = {name: [fresh.round(4).tolist() for fresh in both] for name, both in curves.items()}
    write_figures(options.json, day=options.day, cycles=options.cycles, freshness=figures)
    ours, best, even = (means[name][0] for name in ("webcrawl", "optimum", "uniform"))
    return 0 if ours >= LEAST_OF_OPTIMUM * best and ours >= LEAST_OF_UNIFORM * even else 1


if __name__ == "__main__":
    sys.exit(main())
