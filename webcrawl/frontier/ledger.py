"""The ledger of budgets: the spending of names and registered domains, over all workers of a crawl."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address, ip_network

import xxhash

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys, name_of
from webcrawl.engine.scripts import script_call
from webcrawl.frontier.operations import BATCH, milliseconds
from webcrawl.policies.budgets import LONGEST, MOST_DOMAINS, Slowdown, Spending
from webcrawl.urls.canonical import hostname, is_address, registered_domain

_SOON_SECONDS = 10.0
"""A host counts if it may be asked within so many seconds, or within _SOON_GAPS usual gaps."""
_SOON_GAPS = 10
_SHARE_SECONDS = 2.0
"""Seconds after which workers share the counts of their shards again."""
_KEPT_SECONDS = 60.0
"""Seconds for which the engine keeps the counts of workers."""
_MOST_WIDE = 100
_MOST_READ = 5_000
"""The most names and domains over their budgets that are read in each shard."""

_NETWORK_BITS = {4: 24, 6: 48}
"""The bits of a network that counts as one registered domain, by the version of its addresses."""

_Counts = tuple[int, int, int]
"""The counts of slow.lua in a shard: better, sunk, wide."""


@dataclass(slots=True)
class BudgetEntry:
    """The spending of a budget's owner since the last entry, and the domains that link to it."""

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
    """The number of names and registered domains over their budgets, and of their hosts; some thousands are read.

    `worst`: the names and domains with the highest spending.
    """

    owners: int
    hosts: int
    worst: list[Over]


@dataclass(slots=True)
class Ledger:
    """The budgets of one crawl. The engine has the entries of an owner in its shard."""

    engine: Engine
    keys: Keys
    _others: dict[int, _Counts] = field(default_factory=dict, init=False)
    """Shard -> the last counts of its worker."""
    _share_at: float = field(default=0.0, init=False)
    _wide: list[str] = field(default_factory=list, init=False)
    """Some domains with several sunk hosts in a shard; one sunk host in another shard makes no other owner of them."""

    async def add(self, entries: Mapping[str, BudgetEntry]) -> dict[str, Spending]:
        """Adds entries; returns the present spending of each owner. An empty entry adds nothing.

        An entry whose reply was lost may have been added: do not repeat it.
        """
        by_shard = self.keys.by_shard(entries, str)
        batches = [
            (shard, owners[start : start + BATCH])
            for shard, owners in by_shard.items()
            for start in range(0, len(owners), BATCH)
        ]
        calls = [
            script_call(
                "budgets",
                self.keys.queue(shard)[:1],
                most=MOST_DOMAINS,
                budget={
                    "owner": owners,
                    "spent": [entries[owner].spent for owner in owners],
                    "domains": [_hashes(entries[owner].domains) for owner in owners],
                },
            )
            for shard, owners in batches
        ]
        spendings: dict[str, Spending] = {}
        for (_, owners), reply in zip(batches, await self.engine.run_all(calls), strict=True):
            rows = (Spending(row.spent, row.domains) for row in reply)
            spendings |= zip(owners, rows, strict=True)
        return spendings

    async def slow_down(
        self, shards: Sequence[int], slowdown: Slowdown, delay: float
    ) -> tuple[int, int, float]:
        """Sets, for a minute, by how much gaps grow over a budget in some shards.

        `delay`: the usual seconds between two requests. Returns the arguments of webcrawl.policies.budgets.slowdown for
        the whole crawl, with the last counts of other shards.
        """
        factor, at_once = (f"{number:.4f}" for number in slowdown)
        calls = [
            script_call(
                "slow",
                self.keys.queue(shard),
                factor=factor,
                at_once=at_once,
                gap_ms=milliseconds(delay),
                shards=self.keys.shards,
                longest=LONGEST,
                soon_ms=milliseconds(max(_SOON_SECONDS, _SOON_GAPS * delay)),
                known=self._wide,
            )
            for shard in shards
        ]
        replies = await self.engine.run_all(calls)
        counts = {
            shard: (reply.better, reply.sunk, reply.wide)
            for shard, reply in zip(shards, replies, strict=True)
        }
        self._wide = sorted({owner.decode() for reply in replies for owner in reply.some})[:_MOST_WIDE]
        if len(counts) < self.keys.shards:
            counts = await self._of_others(counts) | counts
        # of more workers than shards, some have none
        better, sunk, wide = map(sum, zip((0, 0, 0), *counts.values(), strict=True))
        return better, sunk, wide / self.keys.shards

    async def _of_others(self, counts: Mapping[int, _Counts]) -> dict[int, _Counts]:
        """Shares the counts of some shards with other workers now and then; returns the last counts of all shards."""
        if (now := time.monotonic()) >= self._share_at:
            self._share_at = now + _SHARE_SECONDS
            call = script_call(
                "standings",
                [self.keys.own()],
                kept_ms=milliseconds(_KEPT_SECONDS),
                shard={
                    "shard": list(counts),
                    "counts": [f"{better} {sunk} {wide}" for better, sunk, wide in counts.values()],
                },
            )
            flat = await self.engine.run(call)
            self._others = {
                int(shard): _counts(text) for shard, text in zip(flat[::2], flat[1::2], strict=True)
            }
        return self._others

    async def over(self, most: int) -> OverBudget:
        """Returns the number of owners over their budgets, and the `most` with the highest spending."""
        hosts = Counter[str]()
        for shard in range(self.keys.shards):
            read = 0
            async for owner, number in self.engine.client.hscan_iter(
                self.keys.queue(shard)[0] + "overs", count=BATCH
            ):
                hosts[owner.decode()] += int(number)
                if (read := read + 1) >= _MOST_READ:
                    break
        spendings = await self.add({owner: BudgetEntry() for owner in hosts})
        worst = heapq.nlargest(most, spendings, key=lambda owner: spendings[owner].spent)
        rows = [Over(owner, hosts[owner], spendings[owner]) for owner in worst]
        return OverBudget(len(hosts), sum(hosts.values()), rows)


def _counts(text: bytes) -> _Counts:
    better, sunk, wide = map(int, text.split())
    return better, sunk, wide


def _hashes(domains: Iterable[str]) -> bytes:
    return b"".join(xxhash.xxh32_digest(domain.encode()) for domain in sorted(domains))


@lru_cache(maxsize=1 << 14)
def owners(host: str) -> tuple[str, ...]:
    """Returns the owners of budgets for a host: its name, and its registered domain if different.

    The domain of an address is its network, because its neighbours probably have the same owner.
    """
    name, own = hostname(host), name_of(host)
    if is_address(name):
        with suppress(ValueError):
            address = ip_address(name)
            return own, str(ip_network((address, _NETWORK_BITS[address.version]), strict=False))
    domain = registered_domain(name)
    return (own,) if domain == name else (own, domain)
