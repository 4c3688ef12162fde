"""What each primary of the engine takes: a cluster is as fast as its busiest primary."""

from __future__ import annotations

import time
from collections import Counter
from typing import NamedTuple

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys

_LEAST_SECONDS = 1.0
"""Processor time is measured between two readings that are so far apart, at least."""


class ServerLoad(NamedTuple):
    """The load of a primary. `address`: "host:port", or "" of a single server."""

    address: str
    seconds: float
    """Processor time since its start."""
    commands: int
    """Commands since its start, without those that scripts call."""
    rate: int
    """Commands per second now, with those that scripts call."""
    memory: int
    """Bytes."""
    cores: float | None = None
    """Processor cores between the last two readings; None at the first."""
    shards: int = 0
    """Shards of the crawl whose slots it has."""


class ServerLoads:
    """Reads the loads of all primaries of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._read_at = 0.0
        self._seconds: dict[str, float] = {}
        self._cores: dict[str, float] = {}

    async def read(self, keys: Keys) -> list[ServerLoad]:
        """Returns the loads, the busiest first, with one round trip to each primary; raises an error of UNAVAILABLE."""
        client, is_cluster = self._engine.client, self._engine.is_cluster
        infos = await (client.info(target_nodes=client.PRIMARIES) if is_cluster else client.info())
        if "used_memory" in infos:
            names = [node.name for node in client.get_primaries()] if is_cluster else [""]
            infos = {names[0]: infos}
        servers = (self._engine.server_of(keys.clock(shard)) for shard in range(keys.shards))
        shards = Counter(servers)
        loads = [
            ServerLoad(
                name,
                float(info["used_cpu_user"]) + float(info["used_cpu_sys"]),
                int(info["total_commands_processed"]),
                int(info["instantaneous_ops_per_sec"]),
                int(info["used_memory"]),
                shards=shards[name],
            )
            for name, info in infos.items()
        ]
        self._measure({load.address: load.seconds for load in loads})
        loads = [load._replace(cores=self._cores.get(load.address)) for load in loads]
        return sorted(loads, key=lambda load: (-(load.cores or 0.0), -load.rate, load.address))

    def _measure(self, seconds: dict[str, float]) -> None:
        """Measures the cores of servers since the last reading."""
        now = time.monotonic()
        if (passed := now - self._read_at) < _LEAST_SECONDS:
            return
        self._cores = {
            name: max(0.0, used - self._seconds[name]) / passed
            for name, used in seconds.items()
            if name in self._seconds
        }
        self._read_at, self._seconds = now, seconds
