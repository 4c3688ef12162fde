"""Records of idle hosts in the store, for crawls that meet more hosts than their engine can hold.

A host is idle if it has no URLs, no lease, and no politeness record. That record expires about an hour after the last
request, unless an operator has set something in it, so delays, pauses and failures never leave the engine. What the
crawl has learned of the host does: its trust, pages, errors, budget, URL patterns and DUST rules. Owners of budgets are
kept in the same way.

Only a full engine moves records. A worker copies them into new parts of cold buckets, which are ranges of hosts by the
hash of their names, and puts these into the store. merge_hosts.lua then replaces a bucket and removes the records that
have not changed meanwhile, in one step. So a record is never missing, and what is in the engine counts. A host that
gets a URL or trust again is put into `waking`, and is not leased until a worker has read its record (wake_hosts.lua).

The engine keeps the sums of trust of all hosts, wherever their records are.
"""

from __future__ import annotations

import struct
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence

import msgpack

from webcrawl.engine.scripts import script_call
from webcrawl.frontier.cold_host_move import (
    DESCRIPTOR,
    FACTS,
    HostFacts,
    HostForgetting,
    HostMove,
    read_records,
)
from webcrawl.frontier.cold_part import FULL_SHARE, ColdPart
from webcrawl.frontier.operations import batches
from webcrawl.frontier.tails import Tails
from webcrawl.policies.budgets import MOST_DOMAINS

LEAST_IDLE = 1000
"""The fewest hosts of a shard that are moved: a move writes all buckets of its hosts again."""
_WAKE_SECONDS = 0.5
_LOOK_SECONDS = 5.0
_LONGEST_LOOK = 300.0
"""Seconds until the next move if the last one has read all records of a shard, and few were idle."""
_WOKEN_AT_ONCE = 500
_BUCKETS_AT_ONCE = 64


class ColdHosts(ColdPart):
    """The records of one crawl. The verbs raise StoreError, and errors of UNAVAILABLE."""

    what = "idle hosts"
    without_store = "hosts that are in it wait, nothing is lost"

    def __init__(self, tails: Tails, *, full_share: float = FULL_SHARE, least_idle: int = LEAST_IDLE) -> None:
        super().__init__(tails, full_share)
        self._least_idle = least_idle
        self._next: dict[int, tuple[int, bytes]] = {}
        """Shard -> where its next move begins."""
        self._swept: defaultdict[int, dict[int, bytes]] = defaultdict(dict)
        """Shard -> what HostForgetting need not read again."""
        self._look_at = 0.0
        """When to look again whether servers are full, by time.monotonic."""

    async def wake(self, shard: int) -> int:
        """Brings back some of the records of a shard that are asked for; returns how many hosts no longer wait."""
        woken = 0
        for descriptor, names in (await self._parts_of(shard, [])).items():
            known = await read_records(self._tails, shard, descriptor)
            columns = {
                "name": names,
                "descriptor": [descriptor] * len(names),
                "facts": [known.get(name, b"") for name in names],
            }
            call = script_call("wake_hosts", self._keys.queue(shard), most=MOST_DOMAINS, host=columns)
            woken += await self._engine.run(call)
        return woken

    async def read(self, names: Sequence[str]) -> dict[str, dict[str, bytes]]:
        """Returns what is known of hosts whose records are in the store: name of a hash -> its value.

        Hosts whose records are in the engine are missing.
        """
        cold: dict[str, dict[str, bytes]] = {}
        for shard, group in self._keys.by_shard(names, str).items():
            if not await self._engine.client.exists(f"{self._keys.queue(shard)[0]}records:cold"):
                continue
            for some in batches(group):
                for descriptor, asked in (await self._parts_of(shard, some)).items():
                    known = await read_records(self._tails, shard, descriptor)
                    stored = {name: known[name] for name in asked if name in known}
                    cold |= await self._current(shard, stored, hot=False)
        return cold

    async def all_records(self, shard: int) -> AsyncIterator[dict[str, dict[str, bytes]]]:
        """Yields what is known of all hosts of a shard whose records are or were in the store."""
        prefix, after, client = self._keys.queue(shard)[0], "-inf", self._engine.client
        while fences := await client.zrange(
            f"{prefix}records:cold", after, "+inf", byscore=True, offset=0, num=_BUCKETS_AT_ONCE
        ):
            for fence in fences:
                key = f"{prefix}records:cold:{fence.decode()}"
                descriptor = await client.getrange(key, 0, DESCRIPTOR - 1)
                known = await read_records(self._tails, shard, descriptor.rstrip())
                for some in batches([*known]):
                    yield await self._current(shard, {name: known[name] for name in some}, hot=True)
            after = f"({fences[-1].decode()}"

    async def _parts_of(self, shard: int, names: Sequence[str]) -> dict[bytes, list[bytes]]:
        """Returns the parts with the records of these hosts, or of those that are asked for."""
        call = script_call(
            "cold_records", self._keys.queue(shard)[:1], most=_WOKEN_AT_ONCE, names=list(names)
        )
        parts: dict[bytes, list[bytes]] = {}
        for row in await self._engine.run(call):
            parts.setdefault(row.descriptor, []).append(row.name)
        return parts

    async def _current(self, shard: int, stored: HostFacts, *, hot: bool) -> dict[str, dict[str, bytes]]:
        """Returns what is known of hosts now; with `hot`, also of those whose records have come back."""
        if not stored:
            return {}
        call = script_call("host_facts", self._keys.queue(shard)[:1], names=[*stored])
        reply = await self._engine.run(call)
        current = {}
        for (name, old), here, is_waking in zip(stored.items(), reply.facts, reply.waking, strict=True):
            if not here or is_waking:
                current[name.decode()] = _joined(_unpacked(old), _unpacked(here) if here else {})
            elif hot:
                current[name.decode()] = _unpacked(here)
        return current

    async def _serve_once(self, shards: Sequence[int]) -> float:
        await self.wake_all(shards)
        if time.monotonic() >= self._look_at:
            moved = await self.move_if_full(shards)
            self._look_at = time.monotonic() + (_LONGEST_LOOK if moved == 0 else _LOOK_SECONDS)
        return _WAKE_SECONDS

    async def wake_all(self, shards: Sequence[int]) -> int:
        """Brings back the records of these shards that are asked for; returns how many hosts no longer wait."""
        groups = [[f"{self._keys.queue(shard)[0]}waking"] for shard in shards]
        asked = zip(shards, await self._engine.any_exist(groups) if groups else (), strict=True)
        return sum([await self.wake(shard) for shard, any_asked in asked if any_asked])

    async def move_if_full(self, shards: Sequence[int]) -> int | None:
        """Moves hosts of those of these shards whose servers are full; returns their number, None without any."""
        full = await self._full(shards)
        return sum([await self.move(shard, self._least_idle) for shard in full]) if full else None

    async def move(self, shard: int, least: int = 1) -> int:
        """Moves idle hosts of a shard to the store, if there are so many; returns how many left the engine."""
        move = HostMove(self._tails, shard, self._next.get(shard, (0, b"0")))
        moved = await move.run(least)
        self._next[shard] = move.next
        return moved

    async def forget(self, shard: int) -> int:
        """Forgets of the hosts in the store what forget_hosts.lua forgets; returns how many hosts were forgotten.

        Hosts that need their records now are left out.
        """
        return await HostForgetting(self._tails, shard, self._swept[shard]).run()


def _unpacked(facts: bytes) -> dict[str, bytes]:
    values = zip(FACTS, msgpack.unpackb(facts, raw=True), strict=False)
    return {fact: value for fact, value in values if value is not False}


def _joined(old: dict[str, bytes], more: dict[str, bytes]) -> dict[str, bytes]:
    """Adds facts like wake_hosts.lua: only budgets grow while their record is in the store."""
    joined = more | old
    if (had := old.get("budgets")) and (new := more.get("budgets")):
        spent = min(struct.unpack_from("<I", had)[0] + struct.unpack_from("<I", new)[0], 2**32 - 1)
        domains = dict.fromkeys(raw[at : at + 4] for raw in (had, new) for at in range(4, len(raw), 4))
        joined["budgets"] = struct.pack("<I", spent) + b"".join([*domains][:MOST_DOMAINS])
    return joined
