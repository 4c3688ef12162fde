"""Tells entries of URLs that were queued again at a better level, which lists and the store still have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_call
from webcrawl.frontier.operations import BATCH


class Sifted(NamedTuple):
    """Entries that are handed out when their turn comes, and those passed over of URLs that are still to be fetched."""

    live: list[bytes]
    overtaken: list[bytes]


async def sift(engine: Engine, keys: Keys, shard: int, host: bytes, entries: Sequence[bytes]) -> Sifted:
    """Sifts entries of a host. Those that are passed over of URLs that were fetched are left out."""
    calls = [
        script_call("overtaken", [keys.queue(shard)[0]], host=host, entries=entries[start : start + BATCH])
        for start in range(0, len(entries), BATCH)
    ]
    verdicts = b"".join(await engine.run_all(calls)).decode()
    if not verdicts:
        return Sifted(list(entries), [])
    pairs = list(zip(entries, verdicts, strict=True))
    return Sifted(*([entry for entry, verdict in pairs if verdict == wanted] for wanted in "01"))
