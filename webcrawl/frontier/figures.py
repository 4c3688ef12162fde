"""The figures of a crawl over all its workers and runs, for the progress line, the summary and commands."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from webcrawl.frontier import Crawl, Frontier, FrontierCounts
from webcrawl.frontier.checkpoint.periodic import CheckpointState, checkpoint_state
from webcrawl.frontier.planning import Planning


@dataclass(frozen=True, slots=True)
class CrawlFigures:
    """Times are in seconds.

    `responses`: status -> responses, including redirects and retries.
    `resources_denied`: resources of rendered pages that robots.txt disallows.
    `ai_denied`: URLs that a site keeps from crawlers for artificial intelligence (AI_OPT_OUTS).
    `resources`: images, scripts and other resources, fetched because of PAGE_RESOURCES; `pages` does not count them.
    `archived`: exchanges in the archive. `stored`: rows written to the metadata database.
    `items`: class -> items that the spiders yielded and the pipelines kept, without pages.
    `feeds`: URI of a feed, without password -> items in it; the batches of a feed count together.
    `lost_requests`: callback -> requests that could not be stored and ended with their process.
    `types`: MIME type -> pages, bytes, and `errors` (documents that could not be read), most pages first.
    `soft_404`: error pages that answered with 200, and redirects of unknown paths.
    `repaired`: damaged documents that were read nevertheless, such as a sitemap with a bare "&".
    `unread`: extra -> pages that were stored but not read, or whose language is not known, without its library.
    `extracted`: rule of EXTRACT -> pages of which it read the fields. `missing_fields`: field -> such pages without it.
    `noindex`, `noarchive`, `nofollow`: pages whose text, archived body or links were left out because they say so.
    `remarks`: flag in `details.remarks` of rows -> pages, such as `wants_cookies`.
    `rewritten`: number of URLs of links or of the queue that a DUST rule made simpler.
    `parked`: queued URLs of hosts that are blocked or have spent their budgets.
    `unreachable`: hosts that never answered, although they were asked (exact within 1%).
    `looked_up`: number of look-ups of URLs of links, which passed the filters or were found in the cache.
    `cache_hit_ratio`: the share of look-ups that workers answered from their caches of popular URLs, not by the engine.
    `retrying`: URLs that wait for another try after a failure, included in `queued`.
    `dropped`: URLs that an operator has dropped (`scrapy urls --set`).
    `fetches`: class (webcrawl.policies.traffic) -> URLs that were fetched. `traffic`: class -> its share of TRAFFIC,
    from 0 to 1.
    `revisits`: outcome -> repeated visits of pages with RECRAWL: changed, unchanged (304, or the same text), gone, or
    failed.
    `late`: pages that are due with RECRAWL and wait; `late_seconds`: for how long the latest of them has waited.
    `freshness`: the expected share of pages, by importance, whose text is current, with RECRAWL; None if unknown.
    `failed_start_urls`: start URL -> the reason why it brought no page; the first 20 of each worker and run.
    `checkpoint`: how CHECKPOINT_EVERY is doing; None for a crawl that never had it.
    `holding`: workers that fetch nothing because their stores are full or unavailable -> reason.
    """

    pages: int
    resources: int
    archived: int
    stored: int
    items: dict[str, int]
    feeds: dict[str, int]
    lost_requests: dict[str, int]
    responses: dict[str, int]
    bytes: int
    types: dict[str, dict[str, int]]
    hosts: int
    unreachable: int
    seconds: float
    pages_per_second: float
    robots_denied: int
    ai_denied: int
    resources_denied: int
    addresses_refused: int
    names_not_resolved: int
    failed: int
    retried: int
    exact_duplicates: int
    near_duplicates: int
    soft_404: int
    repaired: int
    remarks: dict[str, int]
    unread: dict[str, int]
    extracted: dict[str, int]
    missing_fields: dict[str, int]
    noindex: int
    noarchive: int
    nofollow: int
    rewritten: int
    truncated: int
    fetched_again: int
    unchanged: int
    fetches: dict[str, int]
    traffic: dict[str, float]
    revisits: dict[str, int]
    late: int
    late_seconds: float
    freshness: float | None
    failed_start_urls: dict[str, str]
    looked_up: int
    cache_hit_ratio: float
    seen_urls: int
    queued: int
    retrying: int
    parked: int
    spilled: int
    lost_segments: int
    leased: int
    dead_letters: int
    dropped: int
    workers: int
    paused: bool
    holding: dict[str, str]
    checkpoint: CheckpointState | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def checked(self) -> int:
        """The repeated visits of known pages: with RECRAWL all of them, with REVISIT those that answered 304."""
        return sum(self.revisits.values()) or self.unchanged

    @property
    def left(self) -> int:
        """The URLs that are still to be fetched; not those of hosts that are blocked or at their limit."""
        return max(0, self.queued + self.leased - self.parked)

    def fetch_shares(self) -> dict[str, tuple[float, float | None]]:
        """Returns the share of each class in the fetches, the largest first, and its share of TRAFFIC, if that is set.

        Empty with fewer than two classes.
        """
        total = sum(self.fetches.values())
        known = {**dict.fromkeys(self.traffic, 0), **self.fetches}
        shares = sorted(known.items(), key=lambda pair: -pair[1])
        wanted = {name: self.traffic.get(name, 0.0) if self.traffic else None for name in known}
        return (
            {name: (number / total, wanted[name]) for name, number in shares}
            if total and len(shares) > 1
            else {}
        )


_COUNTERS = (
    "resources",
    "archived",
    "stored",
    "robots_denied",
    "ai_denied",
    "resources_denied",
    "addresses_refused",
    "names_not_resolved",
    "failed",
    "retried",
    "exact_duplicates",
    "near_duplicates",
    "soft_404",
    "repaired",
    "noindex",
    "noarchive",
    "nofollow",
    "rewritten",
    "truncated",
    "fetched_again",
    "unchanged",
)
"""Figures that are totals of the same name."""

FAILED_START = "start."
"""Begins the totals that name a failed start URL and the reason, separated by a space."""

GIVEN_UP = "given_up."
"""Begins the totals that name a host that was given up."""

REVISITS = "revisits."
"""Begins the totals of repeated visits by outcome."""

FETCHES = "fetches."
"""Begins the totals of fetches by class (webcrawl.policies.traffic)."""

SITE_FETCHES = "site_fetches."
"""Begins the totals of the fetches from a domain with shares of its own (TRAFFIC), by domain and class."""

FEED, LOST_REQUESTS = "feed.", "lost."
"""Begin the totals that count the items in a feed, and the lost requests of a callback."""

REMARK = "remark."
"""Begins the totals that count the pages with a remark."""

EXTRACTED, MISSING_FIELD = "extracted.", "missing_field."
"""Begin the totals that count the pages for which a rule of EXTRACT is, and the pages that lack a field."""

UNREAD = "unread."
"""Begins the totals that count the pages that were not read without the library of an extra."""


async def figures(frontier: Frontier, crawl: Crawl) -> CrawlFigures:
    """Reads the figures from the engine."""
    counts, totals, workers, (hosts, unreachable), paused, holding = await asyncio.gather(
        frontier.counts(),
        crawl.totals(),
        crawl.workers.names(),
        crawl.host_counts(),
        crawl.paused(),
        crawl.workers.holding(),
    )
    recrawl = await Planning(crawl.engine, crawl.keys, crawl.worker).state()
    return CrawlFigures(
        **_from_totals(totals),
        **_from_counts(counts),
        seen_urls=counts.seen + totals.get("bloom_seen", 0),
        hosts=hosts,
        unreachable=unreachable,
        workers=len(workers),
        paused=paused,
        holding=holding,
        checkpoint=await checkpoint_state(crawl.engine, crawl.keys),
        traffic=await crawl.traffic(),
        late=recrawl.late,
        late_seconds=recrawl.late_seconds,
        freshness=recrawl.freshness,
    )


def fetches_by_site(totals: dict[str, int]) -> dict[str, Counter[str]]:
    """Returns the fetches by class of each domain with shares of its own, and of all other hosts for ""."""
    others = Counter(_named(totals, FETCHES))
    sites: dict[str, Counter[str]] = {}
    for name, number in _named(totals, SITE_FETCHES).items():
        site, _, fetch_class = name.partition(" ")
        sites.setdefault(site, Counter())[fetch_class] = number
        others[fetch_class] -= number
    return {**sites, "": others}


def _from_totals(totals: dict[str, int]) -> dict[str, Any]:
    seconds = totals.get("active_ms", 0) / 1000
    pages = totals.get("pages", 0)
    statuses = _named(totals, "status.")
    return {
        "pages": pages,
        "responses": dict(sorted((status, number) for status, number in statuses.items() if number)),
        "bytes": totals.get("bytes", 0),
        "items": _named(totals, "items."),
        "feeds": _named(totals, FEED),
        "lost_requests": _named(totals, LOST_REQUESTS),
        "types": _types(totals),
        "remarks": _named(totals, REMARK),
        "revisits": _named(totals, REVISITS),
        "fetches": _named(totals, FETCHES),
        "unread": _named(totals, UNREAD),
        "extracted": _named(totals, EXTRACTED),
        "missing_fields": _named(totals, MISSING_FIELD),
        "failed_start_urls": _failed_start_urls(totals),
        "seconds": round(seconds, 3),
        "pages_per_second": round(pages / seconds, 2) if seconds else 0.0,
        **{name: totals.get(name, 0) for name in _COUNTERS},
        **_cache(totals),
    }


def _cache(totals: dict[str, int]) -> dict[str, Any]:
    hits = totals.get("cache_hits", 0)
    looked_up = hits + totals.get("discovered", 0) + totals.get("known", 0)
    return {"looked_up": looked_up, "cache_hit_ratio": round(hits / looked_up, 4) if looked_up else 0.0}


def _from_counts(counts: FrontierCounts) -> dict[str, Any]:
    return {
        "queued": max(0, counts.queued - counts.overtaken) + counts.later,
        "retrying": counts.later,
        "parked": counts.parked,
        "spilled": counts.spilled,
        "lost_segments": counts.lost_segments,
        "leased": counts.leased,
        "dead_letters": counts.dead,
        "dropped": counts.dropped,
    }


def _named(totals: dict[str, int], prefix: str) -> dict[str, int]:
    """Returns the totals with a prefix: name without the prefix -> number."""
    return {name.removeprefix(prefix): totals[name] for name in sorted(totals) if name.startswith(prefix)}


def _failed_start_urls(totals: dict[str, int]) -> dict[str, str]:
    starts = sorted(name.removeprefix(FAILED_START) for name in totals if name.startswith(FAILED_START))
    return {url: reason for url, _, reason in (start.partition(" ") for start in starts)}


def _types(totals: dict[str, int]) -> dict[str, dict[str, int]]:
    types = _named(totals, "type_pages.")
    return {
        mime_type: {
            "pages": pages,
            "bytes": totals.get(f"type_bytes.{mime_type}", 0),
            "errors": totals.get(f"type_errors.{mime_type}", 0),
        }
        for mime_type, pages in sorted(types.items(), key=lambda pair: (-pair[1], pair[0]))
    }
