"""The engine of a simulated crawl: a server like an embedded one, or a cluster, with what it takes of the machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import size_of
from benchmarks.frontier_bench import cpu_seconds
from benchmarks.power_law_web import Reals
from benchmarks.servers import wait_until
from tests.cluster import LocalCluster
from webcrawl.engine.client import Engine
from webcrawl.engine.embedded import answers, server_binary
from webcrawl.engine.keeper import server_arguments
from webcrawl.engine.server_folder import socket_path

_BUFFERS = ("mem_aof_buffer", "mem_clients_normal", "mem_total_replication_buffers", "mem_cluster_links")


@dataclass(frozen=True, slots=True)
class SimulatedEngine:
    """The engine, and the processes of its primaries and replicas, whose data are in a folder."""

    engine: Engine
    primaries: Sequence[int]
    replicas: Sequence[int]
    folder: Path

    async def memory(self) -> int:
        """Bytes of the data of all primaries, without buffers of connections, replicas and files."""
        infos = await self.engine.client.info("memory", **self._everywhere())
        by_server = infos.values() if self.engine.is_cluster else [infos]
        return sum(
            int(info["used_memory"]) - sum(int(info.get(name, 0)) for name in _BUFFERS) for info in by_server
        )

    def disk(self) -> int:
        """Bytes of the files: append-only files of a single server, and the tails of long queues."""
        return size_of(self.folder)

    def cpu(self) -> tuple[Reals, Reals]:
        """Processor time of each primary, and of each replica."""
        return np.array([*map(cpu_seconds, self.primaries)]), np.array([*map(cpu_seconds, self.replicas)])

    def _everywhere(self) -> dict[str, Any]:
        return {"target_nodes": "primaries"} if self.engine.is_cluster else {}


@contextmanager
def servers(folder: Path, primaries: int) -> Iterator[tuple[str, list[int], list[int]]]:
    """Starts one server like that of an embedded engine, or a cluster with a replica of each primary."""
    if primaries > 1:
        with LocalCluster(primaries) as cluster:
            leaders = [node for node in cluster.nodes if node.is_primary]
            others = [node.process.pid for node in cluster.nodes if node not in leaders]
            yield cluster.url, [node.process.pid for node in leaders], others
        return
    server = subprocess.Popen(server_arguments(folder, server_binary()), stdout=subprocess.DEVNULL)
    try:
        wait_until(partial(answers, socket_path(folder)), server, folder / "valkey.log")
        yield f"unix://{socket_path(folder)}", [server.pid], []
    finally:
        server.kill()
        server.wait()
