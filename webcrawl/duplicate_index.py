"""Which page came first: checksums and SimHashes of all workers' pages, in the engine."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from webcrawl.batches import Gathered
from webcrawl.cluster import Command
from webcrawl.duplicates import blocks
from webcrawl.engine import Call, Engine
from webcrawl.errors import EngineFull
from webcrawl.frontier.keys import Keys


class DuplicateIndex:
    """The first URL of every payload and of every text, for one crawl.

    What is new to a full engine is not remembered, and what is asked again changes nothing: a page need not wait, nor
    fail, until there is room, and its copies are not recognized as such. What several pages ask while an answer is on
    its way goes together.
    """

    def __init__(self, engine: Engine, keys: Keys) -> None:
        self._engine = engine
        self._keys = keys
        self._payloads: Gathered[Call, Any] = Gathered(engine.run_all)
        self._texts: Gathered[list[Call], list[Any]] = Gathered(self._look_for_texts)
        self._new_texts: Gathered[list[Command], None] = Gathered(self._remember_texts)

    async def same_payload(
        self, digest: bytes, url: str, fetched_at: datetime
    ) -> tuple[str, datetime] | None:
        """The earlier URL with this checksum and when it was fetched, or None: then `url` is the first from now on."""
        key, mine = self._keys.checksum(digest), f"{fetched_at.timestamp():.6f} {url}"
        try:
            first = await self._payloads.put(Call("twins", [key], (digest, mine)))
        except EngineFull:
            first = await self._engine.client.hget(key, digest) or mine.encode()
        seconds, _, other = first.decode().partition(" ")
        return None if other == url else (other, datetime.fromtimestamp(float(seconds), UTC))

    async def near_text(self, simhash: int, url: str, distance: int) -> str | None:
        """The earlier URL whose SimHash differs in at most `distance` bits, or None: then `url` is remembered.

        Only pages without such a predecessor are remembered, so that all copies point to the same first page.
        """
        raw = simhash.to_bytes(8, "big")
        keys = [self._keys.near(block) for block in blocks(simhash, distance)]
        replies = await self._texts.put([Call("near", [key], (raw, distance)) for key in keys])
        found = [(reply[1], reply[0].decode()) for reply in replies if reply]
        nearest = min(found)[1] if found else url
        if nearest != url:
            return nearest
        with suppress(EngineFull):
            # also when it was found itself: it may have been remembered only in part
            await self._new_texts.put([Command(key, ("HSET", key, raw, url)) for key in keys])
        return None

    async def _look_for_texts(self, texts: list[list[Call]]) -> list[list[Any]]:
        replies = iter(await self._engine.run_all([call for calls in texts for call in calls]))
        return [list(islice(replies, len(calls))) for calls in texts]

    async def _remember_texts(self, texts: list[list[Command]]) -> list[None]:
        await self._engine.change_all([command for commands in texts for command in commands])
        return [None] * len(texts)
