"""A URL on its way through the frontier.

A queue entry is four bytes and the MessagePack array [path, depth, referrer, extra]. The bytes stay outside of it
because the Lua scripts change them: level, and 128 more when the URL was given a date; attempts, fetches that failed;
returns, leases that ran out on it; blames, those of the returns when it may have been in the air. The referrer is
stored as a path when it is on the same host. `extra` is whatever else a request carries.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgpack

DATED = 128

LEVELS = 8
"""Priority levels, 0 the highest."""

DEFAULT_LEVEL = 3
"""Where a request of Scrapy priority 0 goes; each step of priority is one level."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A URL to be added. `fingerprint` None leaves out the seen test; `anyway` queues a URL that was seen, too."""

    host: str
    path: str
    fingerprint: int | None
    level: int = DEFAULT_LEVEL
    depth: int = 0
    referrer: str | None = None
    extra: bytes | None = None
    anyway: bool = False

    def entry(self) -> bytes:
        """The bytes that the engine keeps."""
        referrer = self.referrer
        if referrer is not None and referrer.startswith(self.host + "/"):
            referrer = referrer[len(self.host) :]
        fields: list[object] = [self.path, self.depth, referrer, self.extra]
        while fields[-1] is None:
            fields.pop()
        head = bytes((min(max(self.level, 0), LEVELS - 1), 0, 0, 0))
        # without MessagePack's bin type, which the server's Lua does not know
        return head + bytes(msgpack.packb(fields, use_bin_type=False))


@dataclass(frozen=True, slots=True)
class LeasedURL:
    """A URL handed to a worker; `index` names it within its lease. `dated`: it was fetched, and given a date."""

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

    @property
    def url(self) -> str:
        return self.host + self.path

    @classmethod
    def decode(cls, index: int, host: str, entry: bytes) -> LeasedURL:
        """Read an entry; raises ValueError when it is damaged."""
        fields = msgpack.unpackb(entry[4:], raw=True)
        path, depth, told, extra = (fields + [None] * 4)[:4]
        referrer = None if told is None else told.decode()
        if referrer is not None and referrer.startswith("/"):
            referrer = host + referrer
        level, is_dated = entry[0] % DATED, entry[0] >= DATED
        return cls(
            index, host, path.decode(), level, entry[1], entry[2], depth or 0, referrer, extra, is_dated
        )


def level_of_priority(priority: int) -> int:
    """The level of a Scrapy request priority: higher priority, lower level."""
    return min(max(DEFAULT_LEVEL - priority, 0), LEVELS - 1)


def priority_of_level(level: int) -> int:
    """The reverse, for the priorities that have a level of their own."""
    return DEFAULT_LEVEL - level
