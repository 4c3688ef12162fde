"""What endless sites take of a crawl: six of them beside 50 honest hosts, by the server's log.

    make bench-traps [ARGS="--only calendar,random --pages 2000 --json FILE"]

Two pages of honest hosts link to each of them, as comments with spam do. Settings are the default ones, but for those
that loopback needs and the delay. The exit status is 1 if a trap takes a hundredth of the fetches or more.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.command import (
    ROOT,
    add_json,
    command_line,
    names_of,
    records_table,
    web_crawl,
    write_figures,
)
from benchmarks.servers import free_dns_port, free_port, requests, serving
from benchmarks.trap_sites import TRAPS
from benchmarks.trap_web import TrapWeb, serve
from webcrawl.urls.canonical import registered_domain

DELAY, MOST_SHARE = 0.5, 0.01
LIMIT_SECONDS = 1_800


@dataclass(frozen=True, slots=True)
class SiteRequests:
    """One trap, or all honest hosts; numbers of requests.

    `distinct` are the pages that exist, and `again` the requests for a page that had been asked for before.
    """

    name: str
    pages: int
    distinct: int
    robots: int
    again: int = 0


def counted(asked: Sequence[str]) -> list[SiteRequests]:
    """Counts requests by site; the honest hosts are one. A request is a host with port, a path and a status."""
    pages, robots, distinct, again = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for request, times in Counter(asked).items():
        url, _, status = request.rpartition(" ")
        site = site_of(url)
        if url.endswith(" /robots.txt"):
            robots[site] += times
            continue
        pages[site] += times
        again[site] += times - 1
        distinct[site] += status == "200"
    return [
        SiteRequests(site, pages[site], distinct[site], robots[site], again[site])
        for site in ["honest hosts", *TRAPS]
        if pages[site] or robots[site]
    ]


def site_of(url: str) -> str:
    """Returns the name of the site of a request or host, with port."""
    domain = registered_domain(url.partition(":")[0]).removesuffix(".test")
    return "honest hosts" if domain.startswith("example") else domain


def missed(sites: Sequence[SiteRequests]) -> list[str]:
    """The traps that take too much."""
    everything = sum(site.pages for site in sites)
    return [site.name for site in sites if site.name in TRAPS and site.pages >= MOST_SHARE * everything]


def measure(traps: Sequence[str], pages: int) -> list[SiteRequests]:
    """Crawls so many pages of the honest hosts and the traps that they link to."""
    web, names = TrapWeb(free_port("0.0.0.0"), pages, traps=traps), free_dns_port()
    with tempfile.TemporaryDirectory(prefix="bench-traps-", ignore_cleanup_errors=True) as folder:
        home, log = Path(folder), Path(folder) / "log"
        settings = {"DOWNLOAD_DELAY": DELAY, "CRAWL_MAX_PAGES": pages}
        command = web_crawl(home, map(web.start, range(web.hosts)), names, settings)
        with serving(serve, web, names, log):
            subprocess.run(command, cwd=ROOT, check=True, timeout=LIMIT_SECONDS)
        return counted([request for _, request in requests(log)])


def arguments() -> argparse.Namespace:
    parser, names = command_line(__doc__), list(TRAPS)
    parser.add_argument(
        "--only", type=names_of(names), default=names, metavar="NAME,...", help=", ".join(names)
    )
    parser.add_argument(
        "--pages", type=int, default=20_000, help="of the crawl; sizes of sites follow from it"
    )
    add_json(parser)
    return parser.parse_args()


def main() -> int:
    options = arguments()
    sites = measure(options.only, options.pages)
    print(records_table(sites), f"Too much: {', '.join(missed(sites)) or 'none'}", sep="\n")
    write_figures(options.json, sites=list(map(asdict, sites)))
    return bool(missed(sites))


if __name__ == "__main__":
    sys.exit(main())
