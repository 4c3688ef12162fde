"""The hosts that wait for a worker, by the level of their best URL."""

from __future__ import annotations

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.frontier.entry import LEVELS

_LISTS = ("due", "new")


async def ready_hosts(engine: Engine, keys: Keys) -> list[int]:
    """Returns the hosts with queued URLs and without a lease, for each level from 0 to 7.

    A few lookups for each shard. Names in the lists that are outdated count until a worker meets them.
    """
    pipe = engine.client.pipeline(transaction=False)
    for shard in range(keys.shards):
        prefix = keys.queue(shard)[0]
        for level in range(LEVELS):
            pipe.zcard(f"{prefix}ready:{level}")
            for name in _LISTS:
                pipe.llen(f"{prefix}{name}:{level}")
    lengths, each = await pipe.execute(), 1 + len(_LISTS)
    return [
        sum(sum(lengths[start : start + each]) for start in range(level * each, len(lengths), LEVELS * each))
        for level in range(LEVELS)
    ]
