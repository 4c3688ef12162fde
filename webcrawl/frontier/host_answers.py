"""The answers of hosts that the workers of a crawl share: their robots.txt, and answers to paths that cannot exist."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.keys import Keys
from webcrawl.errors import EngineFull
from webcrawl.hosts.robots import RobotsPolicy
from webcrawl.policies.soft_404 import UnknownPathAnswer

_ASKING_SECONDS = 600
"""Seconds that a worker may take to ask a host; if it dies meanwhile, another worker asks later."""


@dataclass(frozen=True, slots=True)
class StoredRobots:
    """The robots.txt of a host as the engine has it, for `seconds` more."""

    policy: RobotsPolicy
    seconds: float


async def stored_robots(engine: Engine, keys: Keys, host: str) -> StoredRobots | None:
    """Returns the robots.txt of a host; None if it was not read, or its copy has expired.

    Raises StoreError for a damaged copy.
    """
    key = keys.robots(host)
    known = await engine.client.get(key)
    if known is None:
        return None
    return StoredRobots(RobotsPolicy.from_bytes(known), max(0, await engine.client.pttl(key)) / 1000)


async def store_robots(engine: Engine, keys: Keys, host: str, policy: RobotsPolicy) -> None:
    """Stores the robots.txt of a host for other workers, which ask the host themselves if the engine is unavailable."""
    seconds = max(1, int(policy.ttl))
    with suppress(*UNAVAILABLE):
        await engine.change(keys.robots(host), "SET", policy.to_bytes(), "EX", seconds)


@dataclass(frozen=True, slots=True)
class UnknownPaths:
    """The answers of hosts to paths that cannot exist, in one crawl.

    Methods may raise a connection error of the engine, and may be repeated.
    """

    engine: Engine
    keys: Keys
    worker: str

    async def of(self, host: str) -> UnknownPathAnswer | None:
        """Returns the answer of a host; None if it was not asked, or has not answered yet."""
        known = await self.engine.client.hget(self._prefix(host) + "unknown", host)
        return None if known is None else UnknownPathAnswer.decoded(known.decode())

    async def claim(self, host: str) -> bool:
        """Whether this worker should ask the host, and no other worker for ten minutes. False if the engine is full."""
        key = f"{self._prefix(host)}asking:{host}"
        with suppress(EngineFull):
            if await self.engine.change(key, "SET", self.worker, "NX", "EX", _ASKING_SECONDS):
                return True
            # the reply to an earlier call may have been lost
            return bool(await self.engine.client.get(key) == self.worker.encode())
        return False

    async def leave(self, host: str) -> None:
        """Lets another worker ask the host, because this worker did not."""
        await self.engine.change(f"{self._prefix(host)}asking:{host}", "DEL")

    async def keep(self, host: str, answer: UnknownPathAnswer) -> None:
        """Stores the answer of a host. A full engine does not store it, so other workers do not get it."""
        with suppress(EngineFull):
            await self.engine.change(f"{self._prefix(host)}unknown", "HSET", host, answer.encoded())

    def _prefix(self, host: str) -> str:
        return self.keys.queue(self.keys.shard(host))[0]
