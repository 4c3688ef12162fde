"""What endless sites take of a crawl: seven of them beside 50 honest hosts, by the server's log.

    make bench-traps [ARGS="--only calendar,random --pages 2000 --json FILE"]
    make bench-traps ARGS="--forum 4000 --honest 5000 --pages 12000 --delay 0.05 --set IMPORTANCE=aopic"
    make bench-traps ARGS="--forum 50000 --deep 100 --honest 5000 --pages 68000 --delay 0 --no-traps"

Two pages of honest hosts link to each of them, as comments with spam do. Settings are the default ones, but for those
that loopback needs and the delay. The exit status is 1 if a trap takes a hundredth of the fetches or more. With a forum
or a deep site, to which all honest hosts link, the exit status is 1 if all traps take a fifth of the fetches before all
honest pages might have been fetched, or if some honest pages are missing when eleven twelfths of the fetches are done.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.command import ROOT, SETTINGS, command_line, records_table, web_crawl, write_figures
from benchmarks.servers import free_dns_port, free_port, requests, serving
from benchmarks.trap_sites import TRAPS, serve_prose
from benchmarks.trap_web import TrapWeb
from webcrawl.urls.canonical import registered_domain

DELAY, MOST_SHARE, MOST_OF_ALL = 0.5, 0.01, 0.2
OF_ALL = 1.6
"""Honest pages for each page of the crawl."""
LIMIT_SECONDS = 5_400


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
        for site in ["honest hosts", "forum", "deep", *TRAPS]
        if pages[site] or robots[site]
    ]


def site_of(url: str) -> str:
    """Returns the name of the site of a request or host, with port."""
    domain, dot, _ = registered_domain(url.partition(":")[0]).rpartition(".test")
    if not dot:
        return "farm"
    return "honest hosts" if domain.startswith("example") else domain


def missed(sites: Sequence[SiteRequests]) -> list[str]:
    """The traps that take too much."""
    everything = sum(site.pages for site in sites)
    return [site.name for site in sites if site.name in TRAPS and site.pages >= MOST_SHARE * everything]


def missed_beside_forum(asked: Sequence[str], web: TrapWeb, most: int) -> list[str]:
    """What is wrong with the first fetches: as many as there are honest pages, and 11/12 of `most`."""
    pages = [request for request in asked if not request.rpartition(" ")[0].endswith(" /robots.txt")]
    honest = sum(web.whole.values())
    first = sum(site.pages for site in counted(pages[:honest]) if site.name in TRAPS)
    enough = {site.name: site.distinct for site in counted(pages[: most * 11 // 12])}
    wrong = [f"traps {first:,} of the first {honest:,}"] if first >= MOST_OF_ALL * honest else []
    for site, wanted in web.whole.items():
        if enough.get(site, 0) < wanted:
            wrong.append(f"{site} {enough.get(site, 0):,} of {wanted:,}")
    return wrong


def measure(options: Namespace) -> tuple[list[SiteRequests], list[str]]:
    """Crawls pages of the honest hosts and the traps that they link to; returns the requests, and what is wrong."""
    size, names = round(options.honest / OF_ALL) if options.honest else options.pages, free_dns_port()
    endless = options.only if options.traps else ()
    web = TrapWeb(free_port("0.0.0.0"), size, traps=endless, threads=options.forum, wide=options.deep)
    with tempfile.TemporaryDirectory(prefix="bench-traps-", ignore_cleanup_errors=True) as folder:
        seeds, log = map(web.start, range(web.hosts)), Path(folder) / "log"
        limits = {"DOWNLOAD_DELAY": options.delay, "CRAWL_MAX_PAGES": options.pages}
        command = web_crawl(Path(folder), seeds, names, options.set, **limits)
        with serving(serve_prose, web, names, log):
            subprocess.run(command, cwd=ROOT, check=True, timeout=LIMIT_SECONDS)
        asked = [request for _, request in requests(log)]
    sites = counted(asked)
    return sites, missed_beside_forum(asked, web, options.pages) if options.forum or options.deep else missed(
        sites
    )


def main() -> int:
    parser = command_line(
        __doc__,
        TRAPS,
        json=True,
        pages=(20_000, "of the crawl; sizes of sites follow from it"),
        forum=(0, "threads of an honest forum on one host"),
        deep=(0, "pages of each level of an honest site"),
        traps=(True, "leave out the endless sites"),
        honest=(0, "pages of the honest hosts together"),
        delay=(DELAY, "DOWNLOAD_DELAY"),
        set=SETTINGS,
    )
    options = parser.parse_args()
    sites, wrong = measure(options)
    print(records_table(sites), f"Wrong: {', '.join(wrong) or 'nothing'}", sep="\n")
    write_figures(options.json, sites=sites)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
