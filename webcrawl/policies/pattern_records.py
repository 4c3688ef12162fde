"""Records the yield of a host's URL patterns, and decides how far the URLs of a pattern sink that gives nothing new.

Traps are patterns: the days of a calendar, sessions in paths and queries, the filters of a shop. A pattern sinks if few
of its last pages had a text that was new. Nothing is dropped, as in IRLbot (Lee, Leonard, Wang, Loguinov, "IRLbot:
Scaling to 6 Billion Pages and Beyond", WWW 2008): sunk URLs wait behind others. One URL in TRIALS keeps its level, so
that a pattern recovers when its pages change. But a trap would live on trials to which its own pages link. Therefore,
links on pages of a pattern at the lowest level are never trials; the pattern recovers by the pages that are fetched
at that level.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import msgpack

from webcrawl.policies.url_patterns import REST, family, url_pattern

MOST_PATTERNS = 64
"""The most patterns of a host with records of their own."""
TRIALS = 32
"""Of the URLs of a sunk pattern on other pages, one in so many keeps its level, chosen by a checksum of the URL."""
LEAST = 16
"""A pattern with this many pages is judged by its own record, a pattern with fewer by the record of its family."""
WINDOW = 64
"""After this many pages, the recent numbers are halved, so that the last pages decide."""
POOR, SINKS_BY = 4, 2
"""If fewer than one in POOR pages were new, URLs sink by SINKS_BY levels."""
BARREN, LOWEST_OF_ALL = 16, 8
"""If fewer than one in BARREN pages were new, URLs sink to the lowest level."""

Outcome = Literal["new", "copy", "error", "empty"]


@dataclass(slots=True)
class PatternCounts:
    """Counts of the pages of one pattern.

    fetched          all pages
    new              pages with a text that no earlier page had
    copies           pages with the same bytes as an earlier page, or nearly the same text
    errors           pages that the server refused, such as status 404
    empty            HTML without text
    links            URLs that these pages were the first to link to
    recent, recent_new   `fetched` and `new`, but halved whenever `recent` reaches WINDOW
    """

    fetched: int = 0
    new: int = 0
    copies: int = 0
    errors: int = 0
    empty: int = 0
    links: int = 0
    recent: int = 0
    recent_new: int = 0

    def add(self, outcome: Outcome) -> None:
        """Counts a page."""
        self.fetched += 1
        self.recent += 1
        if outcome == "new":
            self.new += 1
            self.recent_new += 1
        elif outcome == "copy":
            self.copies += 1
        elif outcome == "error":
            self.errors += 1
        else:
            self.empty += 1
        if self.recent >= WINDOW:
            self.recent, self.recent_new = self.recent // 2, self.recent_new // 2

    def merge(self, other: PatternCounts) -> None:
        """Adds another record."""
        for name in PatternCounts.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        while self.recent >= WINDOW:
            self.recent, self.recent_new = self.recent // 2, self.recent_new // 2

    @property
    def why(self) -> str:
        """The most frequent reason why pages were not new: "212 of 230 pages were copies"."""
        names = {"copies": self.copies, "errors": self.errors, "without text": self.empty}
        worst = max(names, key=lambda name: names[name])
        return f"{names[worst]:,} of {self.fetched:,} pages were {worst}"


def sinks_by(recent: int, new: int) -> int:
    """Returns the levels by which the URLs of a pattern sink if `new` of its last `recent` pages were new."""
    if recent < LEAST or new * POOR >= recent:
        return 0
    return SINKS_BY if new * BARREN >= recent else LOWEST_OF_ALL


def is_trial(path: str) -> bool:
    """Whether a URL is a trial, which keeps its level even if its pattern sinks."""
    return zlib.crc32(path.encode(errors="replace")) % TRIALS == 0


@dataclass(slots=True)
class HostPatterns:
    """The records of one host: at most MOST_PATTERNS, and one for the rest."""

    records: dict[str, PatternCounts] = field(default_factory=dict)
    _sunk: dict[str, int] | None = None
    """Pattern or family -> levels; None until it is computed."""

    def add(self, path: str, outcome: Outcome) -> bool:
        """Counts a page by its path and query; returns whether the sunk patterns or their levels have changed."""
        before = self.sunk
        record = self._record(url_pattern(path))
        record.add(outcome)
        if not before and (outcome == "new" or record.recent_new * POOR >= record.recent):
            # nothing sinks, and a family begins to sink only if one of its patterns is poor
            return False
        self._sunk = None
        return self.sunk != before

    def add_links(self, path: str, links: int) -> None:
        """Counts the links of a page to new URLs."""
        self._record(url_pattern(path)).links += links

    def levels(self, path: str, *, tries: bool = True) -> int:
        """Returns the levels by which a URL sinks; `tries`: the URL may be a trial."""
        sunk = self.sunk
        if not sunk or (tries and is_trial(path)):
            return 0
        return self.levels_of(url_pattern(path))

    def tries(self, path: str) -> bool:
        """Whether links on a page may be trials: its pattern has not sunk to the lowest level."""
        return not self.sunk or self.levels_of(url_pattern(path)) < LOWEST_OF_ALL

    def levels_of(self, pattern: str) -> int:
        """Returns the levels by which the URLs of a pattern sink, except trials."""
        sunk = self.sunk
        if pattern in sunk:
            return sunk[pattern]
        known = self.records.get(pattern)
        if known is not None and known.recent >= LEAST:
            return 0
        wider = family(pattern)
        if wider in sunk or known is not None:
            return sunk.get(wider, 0)
        return sunk.get(REST, 0) if len(self.records) >= MOST_PATTERNS else 0

    @property
    def sunk(self) -> dict[str, int]:
        """The patterns and families that sink -> levels."""
        if self._sunk is None:
            self._sunk = dict(self._judged())
        return self._sunk

    def pack(self) -> bytes:
        """Returns the records, a few dozen bytes each."""
        rows = [
            [name, *(getattr(record, column) for column in record.__slots__)]
            for name, record in self.records.items()
        ]
        return bytes(msgpack.packb(rows))

    @classmethod
    def unpack(cls, packed: bytes) -> HostPatterns:
        """Reverses `pack`; an empty text gives no records."""
        if not packed:
            return cls()
        return cls({name: PatternCounts(*numbers) for name, *numbers in msgpack.unpackb(packed)})

    def _judged(self) -> Iterator[tuple[str, int]]:
        families: dict[str, list[int]] = {}
        for name, record in self.records.items():
            if levels := sinks_by(record.recent, record.recent_new):
                yield name, levels
            if "?" not in name and record.recent >= LEAST:
                continue  # a file says little about the others of its folder, unlike parameters of one path
            of_family = families.setdefault(name if name.endswith("*") else family(name), [0, 0])
            of_family[0] += record.recent
            of_family[1] += record.recent_new
        for name, (recent, new) in families.items():
            if levels := sinks_by(recent, new):
                yield name, levels

    def _record(self, pattern: str) -> PatternCounts:
        """Returns the record of a pattern, of its family or of the rest."""
        records = self.records
        for name in (pattern, family(pattern)):
            if name in records:
                return records[name]
        if len(records) >= MOST_PATTERNS:
            self._make_room()
            return self._record(pattern) if family(pattern) in records else self._add(pattern)
        return self._add(pattern)

    def _add(self, pattern: str) -> PatternCounts:
        name = pattern if len(self.records) < MOST_PATTERNS else REST
        return self.records.setdefault(name, PatternCounts())

    def _make_room(self) -> None:
        """Merges the family with the most patterns, or otherwise the pattern with the fewest pages into the rest."""
        families: dict[str, list[str]] = {}
        for name in self.records:
            if not name.endswith("*"):
                families.setdefault(family(name), []).append(name)
        wider = max(families, key=lambda name: len(families[name]), default=REST)
        names = families.get(wider, [])
        if len(names) < 2:
            wider = REST
            others = (name for name in self.records if name != REST)
            names = sorted(others, key=lambda name: self.records[name].fetched)
            names = names[: 1 if REST in self.records else 2]
        merged = self.records.setdefault(wider, PatternCounts())
        for name in names:
            merged.merge(self.records.pop(name))
        self._sunk = None
