"""Holds shards of a crawl while they are copied: entries that leave their lists are written to a journal."""

from __future__ import annotations

from collections.abc import Iterable

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_call

HOLD_SECONDS = 60.0
"""Seconds for which the journal of a shard is kept after it was begun or renewed."""


async def hold(engine: Engine, keys: Keys, step: str, name: str, shards: Iterable[int]) -> list[str]:
    """Begins, renews or ends ("begin", "renew", "end") the journals of shards for the process `name`.

    Returns the name of the process that holds each shard, "" for none; changes no shard that another process holds.
    """
    hold_ms = int(HOLD_SECONDS * 1000)
    calls = [
        script_call("hold_for_copy", keys.queue(shard), step=step, name=name, hold_ms=hold_ms)
        for shard in shards
    ]
    return [holder.decode() for holder in await engine.run_all(calls)]
