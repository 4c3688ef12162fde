"""Leaves out entries of URLs that were queued again at a better level, which lists and the store still have."""

from __future__ import annotations

from collections.abc import Sequence

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call
from webcrawl.frontier.operations import BATCH


async def live(engine: Engine, keys: Keys, shard: int, host: bytes, entries: Sequence[bytes]) -> list[bytes]:
    """Returns those entries of a host that are not passed over when their turn comes."""
    calls = [
        Call("overtaken", [keys.queue(shard)[0]], [host, *entries[start : start + BATCH]])
        for start in range(0, len(entries), BATCH)
    ]
    verdicts = b"".join(await engine.run_all(calls))
    if not verdicts:
        return list(entries)
    return [entry for entry, verdict in zip(entries, verdicts.decode(), strict=True) if verdict == "0"]
