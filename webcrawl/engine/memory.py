"""The memory of the servers behind a crawl."""

from __future__ import annotations

from typing import NamedTuple

from webcrawl.engine.client import Engine


class Memory(NamedTuple):
    """Bytes, over all primaries."""

    used: int
    limit: int
    """The sum of `maxmemory`; 0 if a server has no limit."""


async def memory(engine: Engine) -> Memory:
    """Asks all primaries; raises an error of webcrawl.engine.client.UNAVAILABLE."""
    client = engine.client
    info = await client.info("memory", **({"target_nodes": client.PRIMARIES} if engine.is_cluster else {}))
    servers = [info] if "used_memory" in info else list(info.values())
    limits = [int(server["maxmemory"]) for server in servers]
    return Memory(sum(int(server["used_memory"]) for server in servers), sum(limits) if all(limits) else 0)
