"""Leaves out entries of URLs that were queued again at a better level, which lists and the store still have."""

from __future__ import annotations

from collections.abc import Sequence

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call
from webcrawl.frontier.operations import BATCH


async def live(
    engine: Engine, keys: Keys, shard: int, entries: Sequence[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    """Returns those (host, entry) of a shard that are not passed over when their turn comes."""
    calls = [
        Call(
            "overtaken",
            [keys.queue(shard)[0]],
            [part for one in entries[start : start + BATCH] for part in one],
        )
        for start in range(0, len(entries), BATCH)
    ]
    verdicts = b"".join(await engine.run_all(calls))
    if not verdicts:
        return list(entries)
    return [one for one, verdict in zip(entries, verdicts.decode(), strict=True) if verdict == "0"]
