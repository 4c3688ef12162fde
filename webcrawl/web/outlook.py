"""What holds a crawl up, and when it ends; of a crawl without workers how and when it ended."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from webcrawl.crawler.report.ending import about
from webcrawl.crawler.report.summary_text import REASONS
from webcrawl.crawler.report.waiting import host_line, retry_line
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.crawl import Runs, last_end_and_time
from webcrawl.frontier.figures import CrawlFigures
from webcrawl.frontier.gauges import next_waits
from webcrawl.frontier.history import History
from webcrawl.frontier.workers import Vitals, WorkerOutlook
from webcrawl.web.overview import Overview

_LEAST_SHARE = 0.05
_MOST_SLOW = 3

_LIMITS = {"max_pages": "--max-pages (CRAWL_MAX_PAGES)", "max_bytes": "CRAWL_MAX_BYTES"}
"""Why a crawl stopped -> the limit at which it would stop again at once."""

CAUSES = {
    "politeness": "the turns of hosts: one request at a time, with a delay between",
    "network": "answers of hosts, or a free connection",
    "parser": "the reading of fetched pages",
    "stores": "the archive and the database, which write pages",
    "engine": "the engine, which keeps the queue",
    "retries": "another try of URLs that failed",
}
"""The causes of waiting, in words."""


@dataclass(frozen=True, slots=True)
class CrawlOutlook:
    """What a running crawl waits for. Times are in seconds.

    `waits`: share, cause, and the cause in words. `slow`: hosts that hold the crawl up, with their queued URLs, the
    time between two requests and the time that all take. `lines`: sentences about what is queued. `ends`: the time
    until the end, and the grounds for the estimate; None without one.
    """

    waits: list[tuple[float, str, str]]
    slow: list[tuple[str, int, float, str]]
    lines: list[str]
    ends: tuple[float, str] | None


@dataclass(frozen=True, slots=True)
class CrawlEnd:
    """How a crawl without workers ended, and when: seconds since 1970, of a killed run its last sample, if any.

    `next_step`: what continues it; empty if nothing is left.
    """

    how: str
    ended: float | None
    next_step: str


async def outlook(crawl: Crawl, frontier: Frontier, current: Overview) -> CrawlOutlook:
    """Returns the outlook of a running crawl; a few lookups for each shard."""
    shares, slow, ends = together(
        vitals.outlook for vitals in current.vitals.values() if isinstance(vitals, Vitals)
    )
    now = current.figures
    return CrawlOutlook(
        [(share, cause, CAUSES.get(cause, "")) for cause, share in shares.items() if share >= _LEAST_SHARE],
        [(host, urls, gap, about(urls * gap)) for host, urls, gap in slow],
        [] if now.paused else await _queue_lines(frontier, now),
        None if ends is None else (max(0.0, ends[0] - time.time()), ends[1]),
    )


def together(
    outlooks: Iterable[WorkerOutlook],
) -> tuple[dict[str, float], list[tuple[str, int, float]], tuple[float, str] | None]:
    """Returns the mean shares of several workers, their slowest hosts, and the latest of their ends."""
    looks = list(outlooks)
    known = [look.waits for look in looks if look.waits]
    total = Counter[str]()
    for waits in known:
        total.update(waits)
    slow = {host: (urls, gap) for look in looks for host, urls, gap in look.slow}
    slowest = sorted(slow.items(), key=lambda each: -each[1][0] * each[1][1])[:_MOST_SLOW]
    ends = [(look.ends, look.grounds) for look in looks if look.ends is not None]
    return (
        {cause: share / len(known) for cause, share in total.most_common()},
        [(host, urls, gap) for host, (urls, gap) in slowest],
        max(ends, default=None),
    )


async def _queue_lines(frontier: Frontier, now: CrawlFigures) -> list[str]:
    """Returns sentences about retries, and about a queue of which no URL may be fetched now."""
    if not (now.retrying or (now.queued and not now.leased)):
        return []
    retry, host = await next_waits(frontier)
    lines = [retry_line(now.retrying, retry)] if retry else []
    if host and not now.leased and (queued := now.queued - now.retrying - now.parked) > 0:
        lines.append(host_line(queued, host))
    return lines


async def crawl_end(crawl: Crawl, current: Overview) -> CrawlEnd | None:
    """Returns how and when a crawl ended; None for a crawl that has never run."""
    if current.state == "empty":
        return None
    samples = await History(crawl.engine, crawl.keys).hour()
    (reason, ended), run = await last_end_and_time(crawl), await Runs(crawl.engine, crawl.keys).latest()
    if ended is not None and run is not None and ended < run.began:
        reason = ended = None  # of the run before
    left = current.figures.queued + current.figures.leased
    when = ended or (samples[-1].time if samples else None)
    return CrawlEnd(how_it_ended(reason, left), when, next_step(reason) if left else "")


def next_step(reason: str | None) -> str:
    """Returns what continues a crawl with URLs that are left."""
    if limit := _LIMITS.get(reason or ""):
        return f"The same command with a higher {limit} continues it."
    return "The same command continues it."


def how_it_ended(reason: str | None, left: int) -> str:
    """Returns how a crawl ended, in words. `left`: URLs that are still queued or leased."""
    if reason is None:
        how = "Its workers ended without a word: they were killed, or lost their machine."
    elif reason == "finished" and left:
        how = "It ended with URLs that cannot be fetched now."
    else:
        what = REASONS.get(reason, f"ended: {reason.replace('_', ' ')}")
        how = f"It {'was ' if what.startswith('stopped') else ''}{what}."
    if not left:
        return how
    return f"{how} {'1 URL is' if left == 1 else f'{left:,} URLs are'} left."
