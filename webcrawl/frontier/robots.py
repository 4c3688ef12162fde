"""The robots.txt of hosts that the workers of a crawl share."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.keys import Keys
from webcrawl.hosts.robots import RobotsPolicy


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
