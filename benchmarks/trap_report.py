"""What the benchmark of traps reports: crawls, the requests that their sites had, and tables of them."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.command import Section, machine, measured_on, table
from benchmarks.trap_sites import TRAPS
from benchmarks.trap_web import HOSTS, WHOLE, TrapWeb
from webcrawl.urls.canonical import registered_domain

SECTION = Section("bench-traps")
DELAY, MOST_SHARE = 0.5, 0.01
SEEDS = {
    "honest": "The first pages of the honest hosts are the seeds",
    "ten": "The first pages of ten honest hosts are the seeds",
    "traps": "The first pages of the traps and of the honest hosts are the seeds",
}


@dataclass(frozen=True, slots=True)
class Crawl:
    """What is crawled: traps, or one site that is to be fetched whole, and honest hosts beside it."""

    sites: tuple[str, ...]
    pages: int
    hosts: int = HOSTS
    seeds: str = "honest"
    is_linked: bool = True
    delay: float = DELAY
    workers: int = 1
    beside: int = 0
    """Pages of all honest hosts beside a site that is to be fetched whole."""

    @property
    def whole(self) -> bool:
        """Whether the site is to be fetched whole."""
        return self.sites[0] in WHOLE

    @property
    def title(self) -> str:
        """A sentence, by which the figures are kept, too."""
        beside = f"{self.hosts} honest hosts of {self.beside:,} pages" if self.hosts else "nothing"
        workers = f", {self.workers} workers" if self.workers > 1 else ""
        if self.whole:
            return f"The {self.sites[0]} beside {beside}{workers}"
        links = "link" if self.is_linked else "do not link"
        only = "" if set(self.sites) == set(TRAPS) else f"; only {', '.join(self.sites)}"
        return f"{SEEDS[self.seeds]}. These {links} to each other{only}{workers}"

    def start(self, web: TrapWeb) -> list[str]:
        """Returns the seeds."""
        honest = range(0, web.hosts, 5 if self.seeds == "ten" else 1)
        first = self.sites if self.whole or self.seeds == "traps" else ()
        return [web.start(site) for site in [*first, *honest]]


@dataclass(frozen=True, slots=True)
class Site:
    """One trap, or all honest hosts, or an honest site by itself; numbers of requests."""

    name: str
    pages: int
    distinct: int
    robots: int
    again: int = 0
    """Requests for a page that had been asked for before."""
    sunk: str = ""
    """What `scrapy host` says of the pattern that has sunk with most pages."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One crawl by the server's log. `wanted` is the number of pages that are to be fetched, or that there are."""

    crawl: Crawl
    wanted: int
    seconds: float
    sites: list[Site] = field(default_factory=list)

    @property
    def pages(self) -> int:
        """Requests but for robots.txt."""
        return sum(site.pages for site in self.sites)

    @property
    def everything(self) -> int:
        """Requests."""
        return self.pages + sum(site.robots for site in self.sites)

    def missed(self) -> list[str]:
        """The sites that take too much, or are not fetched whole."""
        if self.crawl.whole:
            return [site.name for site in self.sites if site.name in WHOLE and site.distinct < self.wanted]
        return [
            site.name for site in self.sites if site.name in TRAPS and site.pages >= MOST_SHARE * self.pages
        ]


def counted(asked: Sequence[str]) -> list[Site]:
    """Counts requests by site; the honest hosts are one. A request is a host with port, a path and a status.

    Distinct pages are those that exist: a crawl also asks for paths that cannot exist.
    """
    pages, robots, distinct = Counter[str](), Counter[str](), Counter[str]()
    again = Counter[str]()
    for request, times in Counter(asked).items():
        url, _, status = request.rpartition(" ")
        site = site_of(url)
        if url.endswith(" /robots.txt"):
            robots[site] += times
            continue
        pages[site] += times
        again[site] += times - 1
        distinct[site] += status == "200"
    order = ["honest hosts", *TRAPS, *WHOLE]
    return [
        Site(site, pages[site], distinct[site], robots[site], again[site])
        for site in order
        if pages[site] or robots[site]
    ]


def site_of(url: str) -> str:
    """Returns the name of the site of a request or host, with port."""
    domain = registered_domain(url.partition(":")[0]).removesuffix(".test")
    return "honest hosts" if domain.startswith("example") else domain


def crawl_table(outcome: Outcome) -> str:
    """Returns the figures of a crawl as Markdown."""
    crawl, missed = outcome.crawl, outcome.missed()
    pace = outcome.pages / outcome.seconds if outcome.seconds else 0.0
    again = sum(site.again for site in outcome.sites)
    sentences = {**{name: trap.sentence for name, trap in TRAPS.items()}, **WHOLE}
    rows = []
    for site in outcome.sites:
        pages = f"{site.pages:,}"
        if site.name not in TRAPS and (not crawl.whole or site.name in WHOLE):
            pages = f"{site.distinct:,} of {outcome.wanted:,}"
        shares = site.pages / outcome.pages, (site.pages + site.robots) / outcome.everything
        rows.append(
            (
                *(site.name, sentences.get(site.name, f"{crawl.hosts} hosts"), pages),
                *(f"{share:.2%}" for share in shares),
                *(site.sunk, "**missed**" if site.name in missed else ""),
            )
        )
    return (
        f"{crawl.title}: {outcome.pages:,} pages in {outcome.seconds:.0f} s, {pace:.0f} a second, "
        f"with a delay of {crawl.delay:g} s."
        + (f" {again:,} of them had been asked for before." if again else "")
        + "\n\n"
        + table("site | what | pages fetched: | share: | with robots.txt: | what has sunk | ", rows)
    )


def write(outcomes: Sequence[Outcome], date: str, file: Path, page: Path | None) -> None:
    """Writes crawls into a file, in place of those with their titles, and all crawls of the file into a page."""
    known = json.loads(file.read_text())["crawls"] if file.exists() else []
    crawls = {_outcome_of(figures).crawl.title: figures for figures in known}
    now = {"date": date, "machine": machine()}
    crawls |= {outcome.crawl.title: {**now, **dataclasses.asdict(outcome)} for outcome in outcomes}
    file.write_text(json.dumps({"crawls": list(crawls.values())}, indent=1) + "\n")
    if page:
        texts = [
            f"{measured_on(figures['date'], figures['machine'])}. {crawl_table(_outcome_of(figures))}"
            for figures in crawls.values()
        ]
        SECTION.replace(page, "\n\n".join(texts))


def _outcome_of(figures: dict[str, Any]) -> Outcome:
    crawl = Crawl(**{**figures["crawl"], "sites": tuple(figures["crawl"]["sites"])})
    sites = [Site(**site) for site in figures["sites"]]
    return Outcome(crawl, figures["wanted"], figures["seconds"], sites)
