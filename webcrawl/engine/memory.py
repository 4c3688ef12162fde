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
    told = await client.info("memory", **({"target_nodes": client.PRIMARIES} if engine.is_cluster else {}))
    infos = [told] if "used_memory" in told else list(told.values())
    limits = [int(one["maxmemory"]) for one in infos]
    return Memory(sum(int(one["used_memory"]) for one in infos), sum(limits) if all(limits) else 0)
