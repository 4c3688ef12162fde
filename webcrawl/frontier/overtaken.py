"""Sifts out the old entries of URLs that were queued again at a better level, which lists and the store still have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_call
from webcrawl.frontier.operations import BATCH


class Sifted(NamedTuple):
    """Entries that will be handed out, and entries that will be passed over although their URLs are not fetched yet."""

    live: list[bytes]
    overtaken: list[bytes]


async def sift(engine: Engine, keys: Keys, shard: int, host: bytes, entries: Sequence[bytes]) -> Sifted:
    """Sifts entries of a host, and leaves out passed-over entries of URLs that were fetched."""
    calls = [
        script_call("overtaken", [keys.queue(shard)[0]], host=host, entries=entries[start : start + BATCH])
        for start in range(0, len(entries), BATCH)
    ]
    verdicts = b"".join(await engine.run_all(calls)).decode()
    if not verdicts:
        return Sifted(list(entries), [])
    pairs = list(zip(entries, verdicts, strict=True))
    return Sifted(*([entry for entry, verdict in pairs if verdict == wanted] for wanted in "01"))
