"""The ledger of budgets: what names and registered domains have spent, over all workers of a crawl."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import xxhash

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys, name_of
from webcrawl.engine.scripts import Call
from webcrawl.frontier.operations import BATCH, milliseconds
from webcrawl.policies.budgets import LONGEST, MOST_DOMAINS, Slowdown, Spending
from webcrawl.urls.canonical import hostname, registered_domain

_SOON_SECONDS = 10.0
"""A host counts as one that could be asked if it may be asked within this time, or within _SOON_GAPS usual gaps."""
_SOON_GAPS = 10
_TELL_SECONDS = 2.0
"""Workers tell each other what they count in their shards so often."""
_TOLD_SECONDS = 60.0
_MOST_READ = 5_000
"""Names and domains over their budgets that are read of each shard to tell of them."""


@dataclass(slots=True)
class Entry:
    """What the owner of a budget has spent, and the domains that link to it, since the last entry."""

    spent: int = 0
    domains: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Over:
    """A name or registered domain that is over its budget, with some of its hosts."""

    owner: str
    hosts: int
    spending: Spending


@dataclass(frozen=True, slots=True)
class OverBudget:
    """How many names and registered domains are over their budgets, with how many hosts; some thousands are read.

    `worst`: those that have spent most.
    """

    owners: int
    hosts: int
    worst: list[Over]


@dataclass(slots=True)
class Ledger:
    """The budgets of one crawl. The engine has the entries of an owner in its shard."""

    engine: Engine
    keys: Keys
    _others: dict[int, tuple[int, ...]] = field(default_factory=dict, init=False)
    """Shard -> what its worker has counted last; see `slow_down`."""
    _tell_at: float = field(default=0.0, init=False)

    async def add(self, entries: Mapping[str, Entry]) -> dict[str, Spending]:
        """Adds entries; returns what each owner has now. An empty entry only asks.

        An entry whose reply was lost may have been added: do not repeat it.
        """
        by_shard: dict[int, list[str]] = {}
        for owner in entries:
            by_shard.setdefault(self.keys.shard(owner), []).append(owner)
        batches = [
            (shard, owners[start : start + BATCH])
            for shard, owners in by_shard.items()
            for start in range(0, len(owners), BATCH)
        ]
        calls = [
            Call("budgets", self.keys.queue(shard)[:1], self._arguments(owners, entries))
            for shard, owners in batches
        ]
        found: dict[str, Spending] = {}
        for (_, owners), reply in zip(batches, await self.engine.run_all(calls), strict=True):
            found |= zip(owners, (Spending(*one) for one in reply), strict=True)
        return found

    async def slow_down(
        self, shards: Sequence[int], slowdown: Slowdown, delay: float
    ) -> tuple[int, int, float]:
        """Sets in some shards by how much gaps are longer over a budget, for a minute.

        `delay`: the usual seconds between two requests. Returns the arguments of webcrawl.policies.budgets.slowdown for
        the whole crawl: of other shards, as their workers have counted last.
        """
        soon = milliseconds(max(_SOON_SECONDS, _SOON_GAPS * delay))
        factors = [f"{one:.4f}" for one in slowdown]
        arguments: list[str | int] = [*factors, milliseconds(delay), self.keys.shards, LONGEST, soon]
        calls = [Call("slow", self.keys.queue(shard), arguments) for shard in shards]
        replies = await self.engine.run_all(calls)
        counted = {shard: (*reply,) for shard, reply in zip(shards, replies, strict=True)}
        if len(counted) < self.keys.shards:
            counted = await self._of_others(counted) | counted
        better, sunk, wide = (sum(one[place] for one in counted.values()) for place in range(3))
        return better, sunk, wide / self.keys.shards

    async def _of_others(self, counted: Mapping[int, Sequence[int]]) -> dict[int, tuple[int, ...]]:
        """Tells the other workers what was counted in some shards; returns what they have told, now and then anew."""
        if (now := time.monotonic()) >= self._tell_at:
            self._tell_at = now + _TELL_SECONDS
            told = [text for shard, row in counted.items() for text in (shard, " ".join(map(str, row)))]
            call = Call("standings", [self.keys.own()], (milliseconds(_TOLD_SECONDS), *told))
            found = await self.engine.run(call)
            self._others = {
                int(shard): (*map(int, row.split()),)
                for shard, row in zip(found[::2], found[1::2], strict=True)
            }
        return self._others

    async def over(self, most: int) -> OverBudget:
        """Returns who is over its budget, with the `most` that have spent most."""
        hosts = Counter[str]()
        for shard in range(self.keys.shards):
            read = 0
            async for owner, number in self.engine.client.hscan_iter(
                self.keys.queue(shard)[0] + "overs", count=BATCH
            ):
                hosts[owner.decode()] += int(number)
                if (read := read + 1) >= _MOST_READ:
                    break
        spendings = await self.add({owner: Entry() for owner in hosts})
        worst = heapq.nlargest(most, spendings, key=lambda owner: spendings[owner].spent)
        rows = [Over(owner, hosts[owner], spendings[owner]) for owner in worst]
        return OverBudget(len(hosts), sum(hosts.values()), rows)

    def _arguments(self, owners: Sequence[str], entries: Mapping[str, Entry]) -> list[str | bytes | int]:
        arguments: list[str | bytes | int] = [MOST_DOMAINS]
        for owner in owners:
            domains = b"".join(
                xxhash.xxh32_digest(domain.encode()) for domain in sorted(entries[owner].domains)
            )
            arguments += [owner, entries[owner].spent, domains]
        return arguments


@lru_cache(maxsize=1 << 14)
def owners(host: str) -> tuple[str, ...]:
    """Returns who has a budget for a host: its name, and its registered domain if that is another."""
    name, domain = name_of(host), registered_domain(hostname(host))
    return (name,) if domain == hostname(host) else (name, domain)
