"""A URL on its way through the frontier.

A queue entry is four bytes and the MessagePack array [path, depth, referrer, extra, level]. The bytes are outside the
array because Lua scripts change them:

- level, or 8 if it is not from 0 to 7, plus 128 if the URL was given a date
- attempts: fetches that failed
- returns: leases that expired with the URL
- blames: returns during which the URL may have been in flight

A referrer on the same host is stored as a path. `extra` is whatever else a request carries; null if an operator has set
the level. `level` is in the array if it is not from 0 to 7.

Of one URL in SAMPLE, chosen by its fingerprint or path, the entry tells when the URL was queued: behind the array
follow six bytes, a MessagePack string of five with hundredths of seconds since 1970. A URL that is fetched again, or
is given another chance as a dead letter, has no such time.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import msgpack

DATED = 128

LEVELS = 8
"""Number of the levels, from 0, that fit in the first byte of an entry. A level is any integer, the lowest the best."""

SAMPLE = 64
"""Of one URL in so many, the time at which it was queued is kept."""

_TIME = 0xA5
"""The first of the bytes that tell when a URL was queued: a MessagePack string of five bytes."""
_TIME_BYTES = 6

_MOST = 2**53
"""Levels beyond plus or minus this count as these; Lua's numbers are doubles."""

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
    """The levels by which importance has changed `level`; None if the URL may not be queued again at a better one."""

    def entry(self, queued_at: float | None = None) -> bytes:
        """Returns the bytes that the engine stores. `queued_at`: Unix time that is kept if the URL is in the sample."""
        referrer = self.referrer
        if referrer is not None and referrer.startswith(self.host + "/"):
            referrer = referrer[len(self.host) :]
        fields: list[object] = [self.path, self.depth, referrer, self.extra]
        level = self.level
        if not 0 <= level < LEVELS:
            fields.append(min(max(level, -_MOST), _MOST))
            level = LEVELS
        while fields[-1] is None:
            fields.pop()
        head = bytes((level, 0, 0, 0))
        # the server's Lua does not know MessagePack's bin type
        entry = head + bytes(msgpack.packb(fields, use_bin_type=False))
        # with SEEN_SET = "bloom", the worker makes the seen test, and the engine gets no fingerprint
        chosen_by = crc32(self.path.encode()) if self.fingerprint is None else self.fingerprint
        if queued_at is None or chosen_by % SAMPLE:
            return entry
        return entry + bytes((_TIME,)) + round(queued_at * 100).to_bytes(_TIME_BYTES - 1, "big")


@dataclass(frozen=True, slots=True)
class LeasedURL:
    """A URL handed to a worker. `index` identifies it within its lease; `dated`: an earlier fetch gave it a date.

    `fixed`: it is a link or a request without a body, whose level was chosen and is not to be changed.
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
    """Its worth when it was handed out, see webcrawl.policies.importance; None if that is not known."""
    fixed: bool = False
    queued_at: float | None = None
    """Unix time at which it was queued; None if that is not known, or if a worker may have begun to fetch it since."""

    @property
    def url(self) -> str:
        return self.host + self.path

    @classmethod
    def decode(cls, index: int, host: str, entry: bytes, worth: int | None = None) -> LeasedURL:
        """Decodes an entry; raises ValueError if it is damaged."""
        fields, queued_at = _parts(entry)
        path, depth, raw_referrer, extra, exact = (fields + [None] * 5)[:5]
        referrer = None if raw_referrer is None else raw_referrer.decode()
        if referrer is not None and referrer.startswith("/"):
            referrer = host + referrer
        first, is_dated = entry[0] % DATED, entry[0] >= DATED
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
            None if entry[1] or entry[3] else queued_at,
        )


def _parts(entry: bytes) -> tuple[list[Any], float | None]:
    """The array of an entry, and the Unix time at which its URL was queued, if it is there."""
    try:
        return msgpack.unpackb(entry[4:], raw=True), None
    except msgpack.ExtraData as more:
        if len(more.extra) != _TIME_BYTES or more.extra[0] != _TIME:
            raise
        return more.unpacked, int.from_bytes(more.extra[1:], "big") / 100


def without_time(entry: bytes) -> bytes:
    """Returns an entry without the time at which its URL was queued."""
    # most entries show by this byte that they have none
    if entry[-_TIME_BYTES] != _TIME or _parts(entry)[1] is None:
        return entry
    return entry[:-_TIME_BYTES]


def decode_urls(host: str, flat: Sequence[Any], worths: Sequence[int] = ()) -> list[LeasedURL]:
    """Decodes the URLs of a script's reply: index, entry, index, entry ...; and what they are worth, if it is known."""
    known = worths or itertools.repeat(None)
    return [
        LeasedURL.decode(*one)
        for one in zip(flat[::2], itertools.repeat(host), flat[1::2], known, strict=False)
    ]


def level_of_priority(priority: int) -> int:
    """Returns the level of a Scrapy priority; a higher priority is a lower level."""
    return min(max(DEFAULT_LEVEL - priority, -_MOST), _MOST)


def priority_of_level(level: int) -> int:
    """Returns the Scrapy priority of a level."""
    return DEFAULT_LEVEL - level
