"""The verdict on a chaos run, from the log of the web, the rows and the archive."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator

from benchmarks.command import table
from tests.web import Hit, LocalWeb

TOLERANCE_SECONDS = 0.002
"""Of a gap between two workers' requests: the engine's clock counts whole milliseconds and is no monotonic one. The log
itself can only show a gap too long: a request is written down after it was sent, a response before it is."""


MOST_UNEVEN = 0.1


@dataclass
class Troubles:
    """What was done to a crawl, and what its processes printed."""

    seconds: float = 0.0
    worker_kills: int = 0
    engine_kills: int = 0
    pauses: int = 0
    cuts: int = 0
    """Times that a worker had no network."""
    skewed_clocks: int = 0
    steady_looks: int = 0
    uneven_shares: float = 0.0
    """The most by which a share of shards differed from the mean, as a part of it, ten seconds after the last change of
    workers."""
    engine_killed_at: list[float] = field(default_factory=list)
    """By the clock of the web's log."""
    leased: int = 0
    """URLs held by workers when they were killed or suspended."""
    refused_starts: int = 0
    """Workers that were started while the engine was down, and reported it."""
    left_early: int = 0
    """Workers that ended before the crawl was finished."""
    crashes: list[str] = field(default_factory=list)
    """The last output of workers that ended otherwise."""


@dataclass(frozen=True)
class Politeness:
    """How hosts were asked; gaps in seconds from the end of one request to the start of the next."""

    at_once: int
    too_early: int
    excused: int
    """Early or concurrent requests while the leases could not be known."""
    shortest_gap: float
    examples: list[str]


@dataclass(frozen=True)
class Verdict:
    """The result of a run."""

    troubles: Troubles
    finished: bool
    hosts: int
    pages: int
    requests: int
    leases_expired: int
    reports_refused: int
    fetched_twice: int
    most_again: int
    """The most URLs that were in expired leases: only these may be fetched again. -1 if unknown."""
    lost: list[str]
    politeness: Politeness
    rows_wrong: int
    """Rows that are missing, unexpected, or do not lead to their record."""
    archive_faults: list[str]
    dead_letters: int

    def faults(self) -> list[str]:
        """The faults of the run; empty if there are none."""
        checks = {
            "the crawl did not finish in time": not self.finished,
            "URLs were lost": bool(self.lost),
            "a host was asked by two at once": self.politeness.at_once > 0,
            "a host was asked too early": self.politeness.too_early > 0,
            "more was fetched twice than leases ran out with": self.fetched_twice > self.most_again >= 0,
            "rows are wrong": self.rows_wrong > 0,
            "the archive is not whole": bool(self.archive_faults),
            "there are dead letters": self.dead_letters > 0,
            "a worker ended though there was work": self.troubles.left_early > 0,
            "a worker crashed": bool(self.troubles.crashes),
            "shares of shards are uneven": self.troubles.uneven_shares > MOST_UNEVEN,
        }
        return [name for name, is_so in checks.items() if is_so]

    def table(self) -> str:
        """The figures of the verdict, its faults and examples of them."""
        figures = {**asdict(self.troubles), **asdict(self.politeness), **asdict(self)}
        rows = [
            (name.replace("_", " "), len(value) if isinstance(value, list) else value)
            for name, value in figures.items()
            if not isinstance(value, dict)
        ]
        examples = [*self.politeness.examples, *self.archive_faults[:5], *self.troubles.crashes[:3]]
        return "\n".join([table("|", rows), *self.faults(), *examples])


def judge(
    web: LocalWeb,
    expected: set[str],
    data_dir: Path,
    troubles: Troubles,
    figures: Mapping[str, int],
    *,
    delay: float,
    urls_a_lease: int,
    finished: bool,
    grace: float = 0.0,
) -> Verdict:
    """Compares what is expected with what the web logged and what the crawl stored.

    `grace`: seconds after a kill of the engine in which it may not know its leases; 0 if it loses nothing.
    """
    answered = Counter(
        web.url(hit.host, hit.path) for hit in web.log() if hit.path != "/robots.txt" and hit.status == 200
    )
    rows = _rows(data_dir)
    records, archive_faults = _records(data_dir / "warc")
    right = {row["url"] for row in rows if records.get((row["warc_file"], row["warc_offset"])) == row["url"]}
    return Verdict(
        troubles=troubles,
        finished=finished,
        hosts=len(web.sites),
        pages=len(expected),
        requests=len(web.hits),
        leases_expired=figures.get("reaped", 0),
        reports_refused=figures.get("settled_too_late", 0),
        fetched_twice=answered.total() - len(answered),
        most_again=-1 if grace else figures.get("reaped", 0) * urls_a_lease,
        lost=sorted(expected - answered.keys()),
        politeness=politeness(
            web.log(), delay, [(at, at + grace) for at in troubles.engine_killed_at if grace]
        ),
        rows_wrong=len(expected ^ right) + len(rows) - len({row["url"] for row in rows}),
        archive_faults=archive_faults,
        dead_letters=figures.get("dead", 0),
    )


def politeness(log: Iterable[Hit], delay: float, excuses: Sequence[tuple[float, float]] = ()) -> Politeness:
    """Judges a log sorted by the start of requests; `excuses` are periods in which requests may be early.

    A page may follow robots.txt at once, but not while it is asked for; its gap is the one after the page before it.
    """
    by_host: dict[str, list[Hit]] = {}
    for hit in log:
        by_host.setdefault(hit.host, []).append(hit)
    gaps: list[tuple[float, Hit]] = []
    for hits in by_host.values():
        gaps += _gaps(hits)
    early = [(gap, hit) for gap, hit in gaps if gap < delay - TOLERANCE_SECONDS]
    excused = sum(any(start <= hit.started <= end for start, end in excuses) for _, hit in early)
    early = [
        (gap, hit) for gap, hit in early if not any(start <= hit.started <= end for start, end in excuses)
    ]
    return Politeness(
        at_once=sum(gap < 0 for gap, _ in early),
        too_early=sum(gap >= 0 for gap, _ in early),
        excused=excused,
        shortest_gap=min((gap for gap, _ in gaps), default=math.inf),
        examples=[f"{hit.host}{hit.path} at {hit.started:.3f}: gap {gap:.4f} s" for gap, hit in early[:5]],
    )


def _gaps(hits: Iterable[Hit]) -> Iterator[tuple[float, Hit]]:
    """Yields each request to a host but the first with its gap, negative if it overlaps with another."""
    any_end = page_end = -math.inf
    for hit in hits:
        is_page = hit.path != "/robots.txt"
        gap = hit.started - any_end
        if is_page and gap >= 0:
            gap = hit.started - page_end
        if gap < math.inf:
            yield gap, hit
        any_end = max(any_end, hit.finished)
        page_end = max(page_end, hit.finished) if is_page else page_end


def _rows(data_dir: Path) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(data_dir / "metadata.db")) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute("SELECT * FROM pages WHERE status = 200")]


def _records(folder: Path) -> tuple[dict[tuple[str, int], str], list[str]]:
    """Reads every record and checks digests: (file, offset) -> URL of the exchanges, and broken records."""
    urls: dict[tuple[str, int], str] = {}
    faults = []
    for path in sorted(folder.rglob("*.warc.gz*")):
        with path.open("rb") as file:
            archive = ArchiveIterator(file, check_digests="raise")
            try:
                for record in archive:
                    location = str(path.relative_to(folder)), archive.get_record_offset()
                    record.content_stream().read()
                    # a page that is fetched twice refers to its first record
                    if record.rec_type in ("response", "revisit"):
                        urls[location] = record.rec_headers["WARC-Target-URI"]
            except Exception as error:  # any error in the file is reported
                faults.append(f"{path.name}: {type(error).__name__}: {error}")
    return urls, faults
