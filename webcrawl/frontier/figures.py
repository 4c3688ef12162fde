"""The state of a crawl in figures, over all its workers and runs: what the live line, the summary and commands show."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import Any

from webcrawl.frontier import Counts, Crawl, Frontier


@dataclass(frozen=True, slots=True)
class Figures:
    """Times in seconds; `responses` by status, redirects and retries included.

    `resources_denied`: what rendered pages would have loaded and robots.txt forbids.
    `types`: MIME type -> pages, their bytes, and `errors`, documents that could not be read; the most pages first.
    `parked` of those queued are of hosts that are blocked or have spent their budget. `holding`: workers that fetch
    nothing, having no room to store more, and why.
    """

    pages: int
    responses: dict[str, int]
    bytes: int
    types: dict[str, dict[str, int]]
    hosts: int
    seconds: float
    pages_per_second: float
    robots_denied: int
    resources_denied: int
    addresses_refused: int
    names_not_resolved: int
    failed: int
    retried: int
    exact_duplicates: int
    near_duplicates: int
    truncated: int
    fetched_again: int
    seen_urls: int
    queued: int
    parked: int
    spilled: int
    lost_segments: int
    leased: int
    dead_letters: int
    workers: int
    paused: bool
    holding: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


async def figures(frontier: Frontier, crawl: Crawl) -> Figures:
    """Read the figures from the engine."""
    counts, totals, workers, hosts, paused, holding = await asyncio.gather(
        frontier.counts(),
        crawl.totals(),
        crawl.workers.names(),
        crawl.host_count(),
        crawl.paused(),
        crawl.workers.holding(),
    )
    return _figures(counts, totals, workers=len(workers), hosts=hosts, paused=paused, holding=holding)


def _figures(
    counts: Counts,
    totals: dict[str, int],
    *,
    workers: int,
    hosts: int,
    paused: bool,
    holding: dict[str, str],
) -> Figures:
    seconds = totals.get("active_ms", 0) / 1000
    pages = totals.get("pages", 0)
    statuses = {
        name.partition(".")[2]: number for name, number in totals.items() if name.startswith("status.")
    }
    return Figures(
        pages=pages,
        responses=dict(sorted((status, number) for status, number in statuses.items() if number)),
        bytes=totals.get("bytes", 0),
        types=_types(totals),
        hosts=hosts,
        seconds=round(seconds, 3),
        pages_per_second=round(pages / seconds, 2) if seconds else 0.0,
        robots_denied=totals.get("robots_denied", 0),
        resources_denied=totals.get("resources_denied", 0),
        addresses_refused=totals.get("addresses_refused", 0),
        names_not_resolved=totals.get("names_not_resolved", 0),
        failed=totals.get("failed", 0),
        retried=totals.get("retried", 0),
        exact_duplicates=totals.get("exact_duplicates", 0),
        near_duplicates=totals.get("near_duplicates", 0),
        truncated=totals.get("truncated", 0),
        fetched_again=totals.get("fetched_again", 0),
        seen_urls=counts.seen + totals.get("bloom_seen", 0),
        queued=counts.queued + counts.later,
        parked=counts.parked,
        spilled=counts.spilled,
        lost_segments=counts.lost_segments,
        leased=counts.leased,
        dead_letters=counts.dead,
        workers=workers,
        paused=paused,
        holding=holding,
    )


def _types(totals: dict[str, int]) -> dict[str, dict[str, int]]:
    found = {
        name.partition(".")[2]: number for name, number in totals.items() if name.startswith("type_pages.")
    }
    return {
        mime_type: {
            "pages": pages,
            "bytes": totals.get(f"type_bytes.{mime_type}", 0),
            "errors": totals.get(f"type_errors.{mime_type}", 0),
        }
        for mime_type, pages in sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    }
