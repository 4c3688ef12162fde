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

import asyncio
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
from benchmarks.command import ROOT, command_line, table, web_crawl, write_figures
from benchmarks.recrawl import optimum, priced, steady
from benchmarks.servers import (
    HTML,
    Names,
    RequestLog,
    answer,
    free_dns_port,
    free_port,
    requests,
    serve_web,
    serving,
)
from benchmarks.trap_sites import html, prose

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
        self.pages = {
            (host, path): page
            for page, (host, path) in enumerate(zip(web.hosts.tolist(), self.paths, strict=True))
        }

    def url(self, page: int) -> str:
        return f"http://www.changing{self.web.hosts[page]}.test:{self.port}{self.paths[page]}"

    def text(self, page: int, day: float) -> str:
        """Returns a page as it is on this day."""
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


async def serve(sites: Sites, names: int, file: Path, ready: Callable[[], None]) -> None:
    """Serves the sites, and their nameserver at the port `names`.

    A line of the log has the day, the page, the host, and the path, after the time.
    """
    log = RequestLog(file)
    began: datetime | None = None
    prose()

    async def respond(authority: str, path: str, stream: asyncio.StreamWriter) -> None:
        nonlocal began
        began = began or datetime.now(UTC)
        day = (datetime.now(UTC) - began).total_seconds() / sites.day
        host = int(NAME.match(authority)[1])  # type: ignore[index]
        log.write(f"{day} {sites.pages.get((host, path), -1)} {host} {path}")
        if path == "/robots.txt":
            rules = (
                f"Sitemap: http://{authority}/sitemap.xml\n" if sites.web.announces[host * HOST_PAGES] else ""
            )
            stream.write(answer("200 OK", rules.encode(), "text/plain"))
        elif path == "/sitemap.xml":
            stream.write(answer("200 OK", sites.sitemap(host, day, began).encode(), "application/xml"))
        elif (host, path) in sites.pages:
            stream.write(answer("200 OK", sites.text(sites.pages[host, path], day).encode(), HTML))
        else:
            stream.write(answer("404 Not Found", b"There is no such page", HTML))

    def address(name: str) -> bytes | None:
        known = NAME.fullmatch(name)
        return bytes([127, 41, 0, int(known[1]) + 1]) if known else None

    await serve_web(respond, sites.port, Names(address), names, ready)


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
        settings: dict[str, object] = {
            "RECRAWL": True,
            "RECRAWL_MIN_INTERVAL": options.day / 24,
            "RECRAWL_WEIGHTS": f"@{home / 'weights'}",
            "IMPORTANCE": "off",
            "SITEMAPS_FROM_ROBOTS": True,
            "DOWNLOAD_DELAY": CYCLE * options.day / HOST_PAGES,
            "CLOSESPIDER_TIMEOUT": seconds,
            "LOG_LEVEL": "WARNING",
        }
        settings |= dict(pair.split("=", 1) for pair in options.set)
        python, _, _, *words = web_crawl(home, urls, names, settings)
        with serving(serve, sites, names, log):
            command = [python, "-c", SHORT_DAYS.format(options.day), *words]
            subprocess.run(command, cwd=ROOT, check=True, timeout=seconds + ENDING_SECONDS)
        lines = [text.split()[:3] for _, text in requests(log)]
    days, pages, hosts = np.array(lines, float).T
    return Crawled(pages.astype(int), days, hosts.astype(int))


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
    parser = command_line(__doc__, json=True)
    parser.add_argument("--hosts", type=int, default=4, help=f"each with {HOST_PAGES} pages")
    parser.add_argument("--day", type=float, default=16, help="seconds")
    parser.add_argument("--cycles", type=int, default=4, help="of 7 days, the first included")
    parser.add_argument("--zipf", type=float, default=1, help="exponent of the weights; 0: all are the same")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="further settings")
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
