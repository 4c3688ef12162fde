"""A URL on its way through the frontier.

A queue entry is four bytes and the MessagePack array [path, depth, referrer, extra, level]. The bytes are outside the
array because Lua scripts change them:

- level, or 8 if it is not from 0 to 7; plus 16 times the number of the fetch's class (webcrawl.policies.traffic), plus
  128 if the URL was given a date
- attempts: fetches that failed
- returns: leases that expired with the URL
- blames: returns during which the URL may have been in flight

A referrer on the same host is stored as a path. `extra` has all other data of a request; null means that an operator
has set the level, or that a request has a priority of its own. The array has a level only if it is not from 0 to 7.

An entry may have the time at which its URL was first queued: six bytes after the array, a MessagePack string of five
bytes with hundredths of seconds since 1970, plus 2**39 if the wait of the URL is not observed. In the crawl of a job's
iteration, all entries have a time; in other crawls, one in SAMPLE. The wait of one URL in SAMPLE is observed, chosen by
its fingerprint or path, until the URL is queued again as a dead letter. The entry of a URL with a date has no time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import msgpack

from webcrawl.policies.traffic import CLASSES, COVERAGE_GET

DATED = 128

_CLASS = 16

LEVELS = 8
"""The number of levels, from 0, that fit in the first byte of an entry. A level is any integer, the lowest is best."""

SAMPLE = 64
"""The wait in the queue is observed for one URL in so many."""

_TIME_MARK = b"\xa5"
"""The first byte of the time at which a URL was queued, a MessagePack string of five bytes."""
_TIME_BYTES = 6
_UNOBSERVED = 1 << 39

_FIXED_FIELDS = ("path", "depth", "referrer", "extra")
"""The fields of an entry whose level was chosen; an explicit null as `extra` says so."""

MOST_ATTEMPTS = 255
"""The most failed fetches of a URL, which a byte of its entry counts."""

MOST_LEVEL = 2**53
"""Levels are limited to plus or minus this, because Lua's numbers are doubles."""

DEFAULT_LEVEL = 3
"""The level of Scrapy priority 0; each step of priority is one level."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A URL to add. Without a `fingerprint` there is no seen test; `anyway` queues the URL even if it was seen."""

    host: str
    path: str
    fingerprint: int | None
    level: int = DEFAULT_LEVEL
    depth: int = 0
    referrer: str | None = None
    extra: bytes | None = None
    anyway: bool = False
    rise: int | None = None
    """The levels by which importance has changed `level`; None if the URL may not be queued again at a better level."""
    is_fixed: bool = False
    """Nothing changes `level`, and no URL of a lower level comes before the URL; for a request without `extra`."""
    fetch_class: str = COVERAGE_GET
    """What the fetch is for, one of CLASSES."""

    def entry(self, queued_at: float | None = None, *, timed: bool = False) -> bytes:
        """Returns the bytes that the engine stores.

        `queued_at`: Unix time that is kept if the URL is in the sample, or if all entries of the crawl are `timed`.
        """
        referrer = self.referrer
        if referrer is not None and referrer.startswith(self.host + "/"):
            referrer = referrer[len(self.host) :]
        fields: list[object] = [self.path, self.depth, referrer, self.extra]
        level = self.level
        if not 0 <= level < LEVELS:
            fields.append(min(max(level, -MOST_LEVEL), MOST_LEVEL))
            level = LEVELS
        while fields[-1] is None and not (self.is_fixed and len(fields) == len(_FIXED_FIELDS)):
            fields.pop()
        head = bytes((level + _CLASS * CLASSES.index(self.fetch_class), 0, 0, 0))
        # the server's Lua does not know MessagePack's bin type
        entry = head + bytes(msgpack.packb(fields, use_bin_type=False))
        # with SEEN_SET = "bloom", the worker makes the seen test, and the candidate has no fingerprint
        chosen_by = crc32(self.path.encode()) if self.fingerprint is None else self.fingerprint
        is_observed = not chosen_by % SAMPLE
        if queued_at is None or not (is_observed or timed):
            return entry
        time = round(queued_at * 100) + (0 if is_observed else _UNOBSERVED)
        return entry + _TIME_MARK + time.to_bytes(_TIME_BYTES - 1, "big")


@dataclass(frozen=True, slots=True)
class LeasedURL:
    """A URL that was handed to a worker. `index` identifies it within its lease. `dated`: the URL was given a date.

    `fixed`: the URL is a link or a request without a body, whose chosen level must not be changed.
    """

    index: int
    host: str
    path: str
    level: int
    attempts: int
    returns: int
    depth: int
    referrer: str | None
    extra: bytes | None
    dated: bool = False
    worth: int | None = None
    """Its worth when it was handed out (webcrawl.policies.importance); None if unknown."""
    fixed: bool = False
    queued_at: float | None = None
    """Unix time at which the URL was first queued; None if unknown."""
    is_observed: bool = False
    """Its wait is observed: the URL is in the sample, and no worker can have begun to fetch it since `queued_at`."""
    fetch_class: str = COVERAGE_GET
    """What the fetch is for, one of CLASSES."""
    lift: int = 0
    """The levels by which it is fetched earlier than its level says, because a lower level of its host has its turn."""
    rank: int = field(init=False, repr=False, compare=False)
    """The level by which a worker orders the URL; many are compared for each URL that is handed out."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", self.level - self.lift)

    @property
    def url(self) -> str:
        return self.host + self.path

    @property
    def is_link(self) -> bool:
        """Whether links of lower levels may come before it: it has no priority of its own, and no more than a URL."""
        return self.extra is None and not self.fixed

    @classmethod
    def decode(cls, index: int, host: str, entry: bytes, worth: int | None = None) -> LeasedURL:
        """Decodes an entry; raises ValueError if it is damaged."""
        fields, time = _parts(entry)
        path, depth, raw_referrer, extra, exact = (fields + [None] * 5)[:5]
        referrer = None if raw_referrer is None else raw_referrer.decode()
        if referrer is not None and referrer.startswith("/"):
            referrer = host + referrer
        (number, first), is_dated = divmod(entry[0] % DATED, _CLASS), entry[0] >= DATED
        if number >= len(CLASSES):
            raise ValueError(f"{entry!r} is of an unknown class")
        level = first if first < LEVELS else int(exact)
        return cls(
            index,
            host,
            path.decode(),
            level,
            entry[1],
            entry[2],
            depth or 0,
            referrer,
            extra,
            is_dated,
            worth,
            len(fields) > 3 and extra is None,
            _seconds(time),
            time is not None and time < _UNOBSERVED and not (entry[1] or entry[3]),
            CLASSES[number],
        )


def _parts(entry: bytes) -> tuple[list[Any], int | None]:
    """Returns the array of an entry, and the number for the time at which its URL was queued, or None."""
    if entry[-_TIME_BYTES:][:1] == _TIME_MARK:
        # an array that only ends like a time is cut off here, and cannot be decoded
        with suppress(ValueError):
            array = msgpack.unpackb(entry[4:-_TIME_BYTES], raw=True)
            return array, int.from_bytes(entry[1 - _TIME_BYTES :], "big")
    return msgpack.unpackb(entry[4:], raw=True), None


def _seconds(time: int | None) -> float | None:
    return None if time is None else time % _UNOBSERVED / 100


def returned(entry: bytes) -> bytes:
    """Returns an entry as if a lease had expired with its URL."""
    return entry[:2] + bytes((min(entry[2] + 1, MOST_ATTEMPTS),)) + entry[3:]


def queued_at_of(entry: bytes) -> float | None:
    """Returns the Unix time at which the URL of an entry was first queued; None if unknown."""
    return _seconds(_parts(entry)[1])


def without_time(entry: bytes) -> bytes:
    """Returns an entry without the time at which its URL was queued."""
    return entry if _parts(entry)[1] is None else entry[:-_TIME_BYTES]


def decode_urls(host: str, flat: Sequence[Any], worths: Sequence[int] = ()) -> list[LeasedURL]:
    """Decodes the URLs of a script's reply: index, entry, index, entry...; with their worths, if known."""
    known = worths or itertools.repeat(None)
    return ranked(
        LeasedURL.decode(*row)
        for row in zip(flat[::2], itertools.repeat(host), flat[1::2], known, strict=False)
    )


def ranked(urls: Iterable[LeasedURL]) -> list[LeasedURL]:
    """Returns URLs in the order in which the engine gave them; each comes no later than the next."""
    kept: list[LeasedURL] = []
    for url in reversed(list(urls)):
        if kept and url.level > (rank := kept[-1].rank):
            url = replace(url, lift=url.level - rank)
        kept.append(url)
    return kept[::-1]


def level_of_priority(priority: int) -> int:
    """Returns the level of a Scrapy priority; a higher priority is a lower level."""
    return min(max(DEFAULT_LEVEL - priority, -MOST_LEVEL), MOST_LEVEL)


def priority_of_level(level: int) -> int:
    """Returns the Scrapy priority of a level."""
    return DEFAULT_LEVEL - level
