"""Leases hosts without losing any when a reply is lost.

A worker numbers its lease calls in each shard, and the engine keeps what the last one gave. After a call without a
reply, the worker asks for that again (regain.lua) before it leases more.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call
from webcrawl.frontier.records import Lease


@dataclass(slots=True)
class Leasing:
    """The lease calls of one worker."""

    engine: Engine
    keys: Keys
    worker: str
    lease_ms: int
    low_thousandths: int
    limits: str
    """Encoded limits of hosts without limits of their own."""
    weight: float
    _turn: int = field(default=0, init=False)
    """Rotates the order of the shards."""
    _caller: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _answered: Counter[int] = field(default_factory=Counter, init=False)
    """Shard -> number of the last lease call with a reply."""
    _unanswered: set[int] = field(default_factory=set, init=False)
    """Shards whose last lease call has no reply."""

    async def lease(self, hosts: int, urls: int, shards: Sequence[int]) -> list[Lease]:
        """See Frontier.lease."""
        leases, failure = await self._regain()
        order = list(shards)
        self._turn += 1
        order = order[self._turn % max(1, len(order)) :] + order[: self._turn % max(1, len(order))]
        order = [shard for shard in order if shard not in self._unanswered]
        while order and len(leases) < hosts:
            each, some = divmod(hosts - len(leases), len(order))
            wanted = {shard: each + (place < some) for place, shard in enumerate(order)}
            calls = {shard: self._lease_call(shard, n, urls) for shard, n in wanted.items() if n}
            found, error = await self._run(calls)
            leases, failure = (
                leases + [lease for group in found.values() for lease in group],
                failure or error,
            )
            # a shard that gave as many as it was asked for may have more
            order = [shard for shard, n in wanted.items() if not n or len(found.get(shard, ())) == n]
        if failure and not leases:  # raising it would lose the leases of other shards
            raise failure
        return leases

    async def regain(self) -> list[Lease]:
        """See Frontier.regain."""
        leases, failure = await self._regain()
        if failure and not leases:
            raise failure
        return leases

    async def _regain(self) -> tuple[list[Lease], Exception | None]:
        calls = {
            shard: Call(
                "regain", self.keys.queue(shard), (self._caller, self._answered[shard] + 1, self.lease_ms)
            )
            for shard in self._unanswered
        }
        found, failure = await self._run(calls)
        leases = [lease for group in found.values() for lease in group]
        for lease in leases:
            lease.urls.sort(key=lambda url: (url.level, url.index))
        return leases, failure

    async def _run(self, calls: Mapping[int, Call]) -> tuple[dict[int, list[Lease]], Exception | None]:
        """Returns the leases by shard, and the error of a shard without a reply, if any."""
        self._unanswered.update(calls)
        found: dict[int, list[Lease]] = {}
        failure = None
        replies = await self.engine.run_all(list(calls.values()), some=True)
        for shard, reply in zip(calls, replies, strict=True):
            if isinstance(reply, Exception):
                failure = reply
                continue
            self._unanswered.discard(shard)
            self._answered[shard] += 1
            found[shard] = [Lease.decode(raw) for raw in reply]
        return found, failure

    def _lease_call(self, shard: int, hosts: int, urls: int) -> Call:
        arguments = (self.worker, hosts, urls, self.lease_ms, self.low_thousandths, self.limits, self.weight)
        number = self._answered[shard] + 1
        return Call("lease", self.keys.queue(shard), (*arguments, self._caller, number))
