"""Sets of strings that all workers of a crawl share, and the first addresses of its seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys


@dataclass(frozen=True, slots=True)
class SharedSets:
    """The sets "seeds" ("hostname port" of each seed) and "scope" (scope keys that seeds and redirects opened)."""

    engine: Engine
    keys: Keys

    async def add(self, name: str, members: Iterable[str]) -> None:
        if members := list(members):
            await self.engine.change(self.keys.own(name), "SADD", *members)

    async def contains(self, name: str, member: str) -> bool:
        return bool(await self.engine.client.sismember(self.keys.own(name), member))

    async def members(self, name: str) -> set[str]:
        return {member.decode() for member in await self.engine.client.smembers(self.keys.own(name))}

    async def first_addresses(
        self, seed: str, addresses: Sequence[str], *, remember: bool = True
    ) -> Sequence[str]:
        """Returns the inner addresses of a seed's host in its first answer: `addresses`, if none is known yet.

        `seed`: "hostname port". `remember`: `addresses` count as the first answer from now on, for all workers.
        """
        key = self.keys.own("seed_addresses")
        if remember and await self.engine.change(key, "HSETNX", seed, " ".join(addresses)):
            return addresses
        known = await self.engine.client.hget(key, seed)
        return addresses if known is None else known.decode().split()
