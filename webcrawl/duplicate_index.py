"""Which page came first: checksums and SimHashes of all workers' pages, in the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from webcrawl.duplicates import blocks
from webcrawl.engine import Call, Engine
from webcrawl.frontier.keys import Keys


@dataclass(frozen=True, slots=True)
class DuplicateIndex:
    """The first URL of every payload and of every text, for one crawl."""

    engine: Engine
    keys: Keys

    async def same_payload(
        self, digest: bytes, url: str, fetched_at: datetime
    ) -> tuple[str, datetime] | None:
        """The earlier URL with this checksum and when it was fetched, or None: then `url` is the first from now on."""
        mine = f"{fetched_at.timestamp():.6f} {url}"
        call = Call("twins", [self.keys.checksum(digest)], (digest, mine))
        first = await self.engine.patiently(lambda: self.engine.run(call))
        seconds, _, other = first.decode().partition(" ")
        return None if other == url else (other, datetime.fromtimestamp(float(seconds), UTC))

    async def near_text(self, simhash: int, url: str, distance: int) -> str | None:
        """The earlier URL whose SimHash differs in at most `distance` bits, or None: then `url` is remembered.

        Only pages without such a predecessor are remembered, so that all copies point to the same first page.
        """
        raw = simhash.to_bytes(8, "big")
        keys = [self.keys.near(block) for block in blocks(simhash, distance)]
        calls = [Call("near", [key], (raw, distance)) for key in keys]
        replies = await self.engine.patiently(lambda: self.engine.run_all(calls))
        found = [(reply[1], reply[0].decode()) for reply in replies if reply]
        if found:
            nearest = min(found)[1]
            return None if nearest == url else nearest
        await self.engine.patiently(lambda: self._remember(keys, raw, url))
        return None

    async def _remember(self, keys: Sequence[str], simhash: bytes, url: str) -> None:
        for key in keys:
            await self.engine.change(key, "HSET", simhash, url)
