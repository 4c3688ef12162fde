"""The workers of a crawl: heartbeats, totals, reserved pages, vitals, and the workers that are alive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import Any, NamedTuple

import msgpack

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call, script_call
from webcrawl.hosts.politeness import Pace
from webcrawl.policies.shard_shares import ShardLoad

_WORKED_GAP_SECONDS = 10.0
"""A longer silence of all workers does not count as working time."""
_POLL_SECONDS = 0.2
"""Seconds after which an ending worker checks again whether the other workers have ended."""


class Beat(NamedTuple):
    """The engine's reply to a heartbeat."""

    seeding: int
    """Workers that still read their seeds."""
    paused: bool
    stops: int
    """The number of times that an operator has stopped the crawl."""


@dataclass(slots=True)
class WorkerRegistry:
    """The registry of a crawl's workers, with the entry of one of them.

    A heartbeat carries a tally: increments for the crawl's totals. A tally whose reply was lost is sent again before
    the next tally. Each tally has a number, so the engine counts it once.
    """

    engine: Engine
    keys: Keys
    worker: str
    worker_seconds: float
    """Seconds for which a worker counts as alive after a heartbeat."""
    _unconfirmed: list[Call] = field(default_factory=list, init=False)
    """Tallies without a reply, the oldest first."""
    _number: int = field(default_factory=lambda: time.time_ns() // 1000, init=False)
    """The number of the last tally, larger than any earlier number under this worker's name."""
    _reserved: int = field(default=0, init=False)
    """Pages that this worker has reserved."""

    async def beat(
        self, *, seeding: bool = False, counted: Mapping[str, int] | None = None, permits: int = 0
    ) -> Beat:
        """Sends a heartbeat, adds to the totals, and gives back `permits` reserved pages.

        The increments count exactly once, even if this raises an error: the next heartbeat sends them again.
        """
        tally = self.tally(counted or {}, permits=permits, seeding=seeding)
        return await self._send(tally, counts=bool(counted or permits))

    async def leave(self, counted: Mapping[str, int] | None = None) -> None:
        """Signs this worker off, with its last increments."""
        await self._send(self._tally(0.0, "working", counted or {}, 0), counts=bool(counted))
        self._reserved = 0

    def tally(self, counted: Mapping[str, int], *, permits: int = 0, seeding: bool = False) -> Call:
        """Returns the call of a heartbeat. Send it before you make the next call; a repeated call counts nothing."""
        return self._tally(self.worker_seconds, "seeding" if seeding else "working", counted, permits)

    async def reserve_pages(self, wanted: int, limit: int) -> int:
        """Reserves up to `wanted` pages of the crawl's page limit; returns how many were granted."""
        await self._send_unconfirmed()
        call = script_call(
            "permit",
            [self.keys.own()],
            worker=self.worker,
            wanted=wanted,
            limit=limit,
            reserved=self._reserved,
        )
        granted = int(await self.engine.run(call))
        self._reserved += granted
        return granted

    async def names(self) -> list[str]:
        """Returns the registered workers. The heartbeat of any worker removes dead workers."""
        return [name.decode() for name in await self.engine.client.zrange(self.keys.own("workers"), 0, -1)]

    async def alive(self) -> list[str]:
        """Returns the workers that are alive by the engine's clock."""
        now = await self.engine.run(script_call("time", [self.keys.own()]))
        names = await self.engine.client.zrangebyscore(self.keys.own("workers"), now, "+inf")
        return sorted(name.decode() for name in names)

    async def count_alive(self) -> int:
        """Returns the number of workers that are alive by the engine's clock."""
        return len(await self.alive())

    async def is_last(self) -> bool:
        """Returns whether this worker, which has left, must do the final work of the crawl, which is done once.

        The last worker must: none other is alive. Waits for workers that still count as alive, because they may have
        died. A worker that leaves later does the final work instead.
        """
        others = set(await self.alive())
        deadline = time.monotonic() + self.worker_seconds + 1.0
        while others and await self.alive():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        if not others:
            return True
        _, lost = await self.lost()
        return others <= lost.keys()

    async def stop(self) -> None:
        """Ends all workers that are alive: with their next heartbeat they finish their requests and leave.

        Workers that start later are not affected.
        """
        await self.engine.change(self.keys.own("info"), "HINCRBY", "stops", 1)

    async def lost(self) -> tuple[float, dict[str, float]]:
        """Returns the time, and the dead workers that were not buried: worker -> when it first counted as dead.

        Times are seconds by the engine's clock.
        """
        client, own = self.engine.client, self.keys.own
        # in this order, because a heartbeat moves dead workers from the first key to the second
        expired = await client.zrange(own("workers"), "-inf", "+inf", byscore=True, withscores=True)
        lost = await client.hgetall(own("lost"))
        now = int(await self.engine.run(script_call("time", [own()]))) / 1000
        dead = {name.decode(): float(when) / 1000 for name, when in [*expired, *lost.items()]}
        return now, {name: when for name, when in dead.items() if when <= now}

    async def bury(self, lost: Iterable[str]) -> None:
        """Removes workers from the list of dead workers, because a notification has named them."""
        if names := list(lost):
            await self.engine.change(self.keys.own("lost"), "HDEL", *names)

    async def forget(self) -> None:
        """Removes all workers and their reservations: no process uses the engine, so the remaining workers are dead."""
        client, own = self.engine.client, self.keys.own
        for worker, when in await client.zrange(own("workers"), 0, -1, withscores=True):
            await self.engine.change(own("lost"), "HSET", worker, int(when))
        await client.delete(*(own(name) for name in ("workers", "seeding", "permits", "holding", "shares")))

    async def hold(self, reason: str) -> None:
        """Records why this worker leases nothing, to be repeated with each heartbeat; "" ends the hold."""
        key = self.keys.own("holding")
        if reason:
            await self.engine.change(key, "HSET", self.worker, reason)
        else:
            await self.engine.change(key, "HDEL", self.worker)

    async def holding(self) -> dict[str, str]:
        """Returns the workers that lease nothing: worker -> reason."""
        raw = await self.engine.client.hgetall(self.keys.own("holding"))
        return {worker.decode(): reason.decode() for worker, reason in raw.items()}

    async def shares(self) -> dict[int, str]:
        """Returns shard -> worker that serves it, as one of the workers has shared them out; empty at first."""
        packed = await self.engine.client.get(self.keys.own("shares"))
        shares = msgpack.unpackb(packed) if packed else {}
        return {shard: worker for worker, shards in shares.items() for shard in shards}

    async def share_out(self, owners: Mapping[int, str]) -> None:
        """Stores which worker serves which shard."""
        shares: dict[str, list[int]] = {}
        for shard, worker in owners.items():
            shares.setdefault(worker, []).append(shard)
        await self.engine.change(self.keys.own("shares"), "SET", msgpack.packb(shares))

    async def _send(self, tally: Call, *, counts: bool) -> Beat:
        """Sends a tally. If the tally counts something and its reply is lost, it is sent again with the next tally."""
        self._unconfirmed.append(tally)
        try:
            reply = await self._send_unconfirmed()
        finally:
            if not counts:
                self._unconfirmed = [call for call in self._unconfirmed if call is not tally]
        return Beat(int(reply.seeding), bool(reply.paused), int(reply.stops))

    async def _send_unconfirmed(self) -> Any:
        """Sends the tallies without a reply; returns the last reply."""
        reply = None
        while self._unconfirmed:
            reply = await self.engine.run(self._unconfirmed[0])
            del self._unconfirmed[0]
        return reply

    def _tally(self, ttl: float, state: str, counted: Mapping[str, int], permits: int) -> Call:
        self._number += 1
        self._reserved -= permits
        return script_call(
            "heartbeat",
            [self.keys.own()],
            worker=self.worker,
            ttl_ms=int(ttl * 1000),
            state=state,
            permits=permits,
            most_gap=int(_WORKED_GAP_SECONDS * 1000),
            number=self._number,
            total={"name": list(counted), "increment": list(counted.values())},
        )


@dataclass(frozen=True, slots=True)
class WorkerOutlook:
    """What a worker last knew of the crawl's waits and end.

    `waits`: cause -> share of what its hosts wait for, the largest first. `slow`: hosts that hold the crawl up, each
    with its queued URLs and the seconds between two requests. `ends`: estimated end in seconds since 1970, or None;
    `grounds`: the grounds for the estimate.
    """

    waits: Mapping[str, float] = field(default_factory=dict)
    slow: Sequence[tuple[str, int, float]] = ()
    ends: float | None = None
    grounds: str = ""


@dataclass(frozen=True, slots=True)
class Vitals:
    """A worker at its last heartbeat.

    `started` is in seconds since 1970, `memory` in bytes of the process without children. `hosts` are leased to the
    worker, with `urls` not handed out yet; `fetching` requests are under way, and `working` pages are read or stored.
    `speed` is in pages per second over the last half minute. `slowest`: the hosts whose last answers took longest, in
    seconds. `paces`: the paces of the slowest hosts, and of the leased hosts with the most open requests or the longest
    waits. `processing`: pages that have been read or stored for some seconds, the oldest first, with the times at which
    they were fetched. `outlook`: its look at the crawl. `shards`: how many it serves. `loads`: the shards that it has
    worked on lately, each with its processor cores, bytes per second, and hosts that are due and not asked.
    """

    started: float
    memory: int
    hosts: int
    urls: int
    fetching: int
    working: int
    pages: int
    speed: float
    slowest: Sequence[tuple[str, float]] = ()
    paces: Mapping[str, Pace] = field(default_factory=dict)
    processing: Sequence[tuple[str, float]] = ()
    outlook: WorkerOutlook = field(default_factory=WorkerOutlook)
    shards: int = 0
    loads: Sequence[tuple[int, float, float, float]] = ()

    @property
    def load(self) -> ShardLoad:
        """The sum over all shards."""
        total = ShardLoad()
        for _, *measures in self.loads:
            total.add(ShardLoad(*measures))
        return total


_NAMES = frozenset(vital.name for vital in fields(Vitals))


@dataclass(frozen=True, slots=True)
class AllVitals:
    """The vitals of a crawl's workers."""

    engine: Engine
    keys: Keys

    async def put(self, worker: str, vitals: Vitals, seconds: float) -> None:
        """Stores the vitals of a worker for `seconds`."""
        paces = {host: astuple(pace) for host, pace in vitals.paces.items()}
        packed = msgpack.packb({**asdict(vitals), "paces": paces})
        await self.engine.change(self._key(worker), "SET", packed, "PX", max(1, int(seconds * 1000)))

    async def of(self, workers: Sequence[str]) -> dict[str, Vitals]:
        """Returns the vitals of the workers that have stored vitals lately."""
        raw = await self.engine.client.mget([self._key(worker) for worker in workers]) if workers else []
        return {
            worker: _decoded(packed)
            for worker, packed in zip(workers, raw, strict=True)
            if packed is not None
        }

    def _key(self, worker: str) -> str:
        return self.keys.own(f"vitals:{worker}")


def _decoded(packed: bytes) -> Vitals:
    """Reads vitals, and ignores fields that only a later version knows."""
    values = {name: value for name, value in msgpack.unpackb(packed).items() if name in _NAMES}
    paces = {host: Pace(*pace) for host, pace in values.pop("paces", {}).items()}
    loads = tuple(tuple(load) for load in values.pop("loads", ()))
    processing = [(url, fetched) for url, fetched in values.pop("processing", ())]
    look = values.pop("outlook", {})
    slow = tuple((host, queued, seconds) for host, queued, seconds in look.pop("slow", ()))
    outlook = WorkerOutlook(**look, slow=slow)
    return Vitals(**values, paces=paces, processing=processing, outlook=outlook, loads=loads)
