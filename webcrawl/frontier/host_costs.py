"""The record of the costs of hosts, over all workers of a crawl."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import msgpack

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call, script_call
from webcrawl.hosts.costs import Cost, Load

MOST_NAMES = 4_000
"""The most hosts and domains whose costs the engine keeps, the costliest; each takes about 250 bytes."""
_BATCH = 500
_MOST_LOADS = 200


@dataclass(slots=True)
class HostCosts:
    """The costs and present loads of hosts and registered domains, with the entry of one worker.

    Costs whose reply was lost are sent again, and the engine counts them once.
    """

    engine: Engine
    keys: Keys
    worker: str
    worker_seconds: float
    """Seconds for which the load of a worker is shown after it was last sent."""
    _unconfirmed: list[Call] = field(default_factory=list, init=False)
    _number: int = field(default_factory=lambda: time.time_ns() // 1000, init=False)

    async def add(self, costs: Mapping[str, Cost]) -> None:
        """Adds costs (name -> increment). They count exactly once, even if this raises an error."""
        names = iter(costs.items())
        while some := list(islice(names, _BATCH)):
            self._unconfirmed.append(self._call(some))
        while self._unconfirmed:
            await self.engine.run(self._unconfirmed[0])
            del self._unconfirmed[0]

    async def of(self, *names: str) -> list[Cost]:
        """Returns the costs of hosts or domains; no costs for names that are not among the costliest."""
        if not names:
            return []
        texts = await self.engine.client.hmget(self.keys.own("costs"), *names)
        return [_cost(text) for text in texts]

    async def costliest(self, most: int) -> dict[str, Cost]:
        """Returns the costliest hosts, among the costliest hosts and domains, the costliest first."""
        names = await self.engine.client.zrevrange(self.keys.own("costliest"), 0, 4 * most)
        hosts = [name.decode() for name in names if b"://" in name][:most]
        return dict(zip(hosts, await self.of(*hosts), strict=True))

    async def show(self, loads: Mapping[str, Load]) -> None:
        """Stores the present loads at this worker: first the hosts that wait for their share, then the busiest."""
        busiest = sorted(
            loads.items(), key=lambda item: (-item[1].waits, -item[1].connections - item[1].unfinished)
        )
        packed = {
            name: (load.connections, load.unfinished, load.waits) for name, load in busiest[:_MOST_LOADS]
        }
        seconds = max(1, int(self.worker_seconds * 1000))
        await self.engine.change(self._key(self.worker), "SET", msgpack.packb(packed), "PX", seconds)

    async def loads(self, workers: Sequence[str]) -> dict[str, Load]:
        """Returns the present loads of hosts and domains, over these workers."""
        loads: dict[str, Load] = {}
        raw = await self.engine.client.mget([self._key(worker) for worker in workers]) if workers else []
        for packed in filter(None, raw):
            for name, figures in msgpack.unpackb(packed).items():
                loads.setdefault(name, Load()).add(Load(*figures))
        return loads

    def _key(self, worker: str) -> str:
        return self.keys.own(f"load:{worker}")

    def _call(self, costs: Sequence[tuple[str, Cost]]) -> Call:
        self._number += 1
        return script_call(
            "charge",
            [self.keys.own()],
            worker=self.worker,
            number=self._number,
            most=MOST_NAMES,
            cost={
                "name": [name for name, _ in costs],
                "weight": [cost.weight for _, cost in costs],
                "cpu": [round(cost.seconds * 1e6) for _, cost in costs],
                "bytes": [cost.bytes for _, cost in costs],
                "questions": [cost.questions for _, cost in costs],
                "waits": [cost.waits for _, cost in costs],
            },
        )


def _cost(text: bytes | None) -> Cost:
    if text is None:
        return Cost()
    microseconds, *others = (int(part) for part in text.split())
    return Cost(microseconds / 1e6, *others)
