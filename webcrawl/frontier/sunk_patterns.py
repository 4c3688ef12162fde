"""The URL patterns of a crawl that have sunk, over all its hosts, for `scrapy status`."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from webcrawl.frontier.frontier import Frontier
from webcrawl.policies.pattern_records import HostPatterns

_BATCH = 50
_MOST_READ = 2_000
"""The most hosts whose records are read; each has up to 64 patterns in 5 kB."""


@dataclass(frozen=True, slots=True)
class SunkPattern:
    """A pattern of a host whose URLs have sunk by so many levels, and why. `fetched` and `new` are pages."""

    host: str
    pattern: str
    fetched: int
    new: int
    sinks_by: int
    why: str


@dataclass(slots=True)
class SunkPatterns:
    """The sunk patterns of a crawl.

    `hosts`: number of hosts with a sunk pattern, of which `hosts_read` were read. `patterns`: number of sunk patterns
    of these hosts; `fetched` of their pages were fetched, and `new` of these had a new text. `worst`: the patterns with
    the most pages that gave nothing new.
    """

    hosts: int = 0
    hosts_read: int = 0
    patterns: int = 0
    fetched: int = 0
    new: int = 0
    worst: list[SunkPattern] = field(default_factory=list)


async def sunk_patterns(frontier: Frontier, most: int = 10) -> SunkPatterns:
    """Returns the sunk patterns of the first 2,000 hosts that have any, with the `most` worst. Reads in batches.

    Idle hosts whose records are in the store do not count.
    """
    sunk = SunkPatterns()
    keys = [frontier.keys.queue(shard)[0] + "patterns" for shard in range(frontier.keys.shards)]
    for key in keys:
        sunk.hosts += await frontier.engine.client.hlen(key)
        async for host, packed in _records(frontier, key, _MOST_READ - sunk.hosts_read):
            sunk.hosts_read += 1
            for pattern in _of_host(host, HostPatterns.unpack(packed)):
                sunk.patterns += 1
                sunk.fetched, sunk.new = sunk.fetched + pattern.fetched, sunk.new + pattern.new
                sunk.worst.append(pattern)
            sunk.worst = heapq.nlargest(most, sunk.worst, key=lambda pattern: pattern.fetched - pattern.new)
    return sunk


async def _records(frontier: Frontier, key: str, most: int) -> AsyncIterator[tuple[str, bytes]]:
    """Yields hosts of a shard with their packed records."""
    read = 0
    async for host, packed in frontier.engine.client.hscan_iter(key, count=_BATCH):
        if read >= most:
            return
        read += 1
        yield host.decode(), packed


def _of_host(host: str, patterns: HostPatterns) -> Iterator[SunkPattern]:
    for name, record in patterns.records.items():
        if levels := patterns.levels_of(name):
            yield SunkPattern(host, name, record.fetched, record.new, levels, record.why)
