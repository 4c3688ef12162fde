"""The vitals of each worker: its memory, its leases, its speed, and its slow hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields

import msgpack

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.hosts.pace import Pace


@dataclass(frozen=True, slots=True)
class Vitals:
    """A worker at its last heartbeat.

    `started` is in seconds since 1970, `memory` in bytes of the process without children. `hosts` are leased to the
    worker, with `urls` not handed out yet; `fetching` requests are under way, and `working` pages are read or stored.
    `speed` is in pages per second over the last half minute. `slowest`: the hosts whose last answers took longest, in
    seconds. `paces`: the paces of the slowest hosts, and of the leased hosts with the most open requests or the longest
    waits. `processing`: pages that have been read or stored for some seconds, the oldest first, with the times at which
    they were fetched.
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
    processing = [(url, fetched) for url, fetched in values.pop("processing", ())]
    return Vitals(**values, paces=paces, processing=processing)
