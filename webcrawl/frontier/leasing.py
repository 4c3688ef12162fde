"""Leases hosts, and loses no lease when a reply is lost.

A worker numbers its lease calls in each shard, and the engine keeps the leases of the last call. After a call without
a reply, the worker asks for these leases again (regain.lua) before it leases more.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call, script_call
from webcrawl.frontier.entry import ranked
from webcrawl.frontier.records import Lease


@dataclass(frozen=True, slots=True)
class HostsWanted:
    """The hosts to lease: `hosts` that have answered, and `new` that never answered; None: `hosts` of both kinds."""

    hosts: int
    new: int | None

    @property
    def any(self) -> bool:
        return bool(self.hosts or self.new)

    def without(self, leases: Sequence[Lease]) -> HostsWanted:
        """Returns the hosts that are still wanted after these leases."""
        new = 0 if self.new is None else sum(not lease.answered for lease in leases)
        hosts = max(0, self.hosts - len(leases) + new)
        return HostsWanted(hosts, None if self.new is None else max(0, self.new - new))

    def split(self, parts: int) -> list[HostsWanted]:
        """Divides the numbers as evenly as possible."""
        return [
            HostsWanted((self.hosts + n) // parts, None if self.new is None else (self.new + n) // parts)
            for n in reversed(range(parts))
        ]

    def is_met_by(self, leases: Sequence[Lease]) -> bool:
        """Whether all hosts of one kind were leased, so that there may be more."""
        left = self.without(leases)
        return bool(self.hosts and not left.hosts) or bool(self.new and not left.new)


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
    class_turns: Callable[[int, Collection[str]], bytes]
    """Returns the turns of classes (TRAFFIC) for so many calls at once; some classes have none."""
    _turn: int = field(default=0, init=False)
    """Rotates the order of the shards."""
    _caller: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _answered: Counter[int] = field(default_factory=Counter, init=False)
    """Shard -> number of the last lease call with a reply."""
    _unanswered: set[int] = field(default_factory=set, init=False)
    """Shards whose last lease call has no reply."""

    async def lease(
        self,
        hosts: int,
        new: int | None,
        urls: int,
        shards: Sequence[int],
        enough_of: Collection[str] = (),
    ) -> list[Lease]:
        """See Frontier.lease."""
        leases, failure = await self._regain()
        order = list(shards)
        self._turn += 1
        order = order[self._turn % max(1, len(order)) :] + order[: self._turn % max(1, len(order))]
        order = [shard for shard in order if shard not in self._unanswered]
        wanted = HostsWanted(hosts, new)
        while order and (left := wanted.without(leases)).any:
            parts = dict(zip(order, left.split(len(order)), strict=True))
            turns = self.class_turns(len(parts), enough_of)
            calls = {
                shard: self._lease_call(shard, part, urls, turns) for shard, part in parts.items() if part.any
            }
            by_shard, error = await self._run(calls)
            leases += [lease for group in by_shard.values() for lease in group]
            failure = failure or error
            # a shard that gave as many hosts as wanted may have more
            order = [
                shard
                for shard, part in parts.items()
                if not part.any or part.is_met_by(by_shard.get(shard, ()))
            ]
        if failure and not leases:  # with leases, raising the error would lose them
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
            shard: script_call(
                "regain",
                self.keys.queue(shard),
                caller=self._caller,
                number=self._answered[shard] + 1,
                lease_ms=self.lease_ms,
            )
            for shard in self._unanswered
        }
        by_shard, failure = await self._run(calls)
        leases = [lease for group in by_shard.values() for lease in group]
        for lease in leases:
            lease.urls[:] = ranked(sorted(lease.urls, key=lambda url: url.index))
        return leases, failure

    async def _run(self, calls: Mapping[int, Call]) -> tuple[dict[int, list[Lease]], Exception | None]:
        """Returns the leases by shard, and the error of a shard without a reply, if any."""
        self._unanswered.update(calls)
        leases: dict[int, list[Lease]] = {}
        failure = None
        replies = await self.engine.run_all(list(calls.values()), some=True)
        for shard, reply in zip(calls, replies, strict=True):
            if isinstance(reply, Exception):
                failure = reply
                continue
            self._unanswered.discard(shard)
            self._answered[shard] += 1
            leases[shard] = [Lease.decode(row) for row in reply]
        return leases, failure

    def _lease_call(self, shard: int, wanted: HostsWanted, urls: int, class_turns: bytes) -> Call:
        return script_call(
            "lease",
            self.keys.queue(shard),
            worker=self.worker,
            hosts=wanted.hosts,
            new=-1 if wanted.new is None else wanted.new,
            urls=urls,
            lease_ms=self.lease_ms,
            share=self.low_thousandths,
            limits=self.limits,
            weight=self.weight,
            caller=self._caller,
            number=self._answered[shard] + 1,
            class_turns=class_turns,
        )
