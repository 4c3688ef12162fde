"""The workers of a crawl, and the shards that each one serves."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import xxhash

from webcrawl.frontier import Crawl

_LENT_SECONDS = 2.0


class Membership:
    """One worker's view of the membership, as of its last `update`.

    Rendezvous hashing (Thaler and Ravishankar 1998) chooses one worker for each shard, so a worker that joins or leaves
    moves only its own share. A worker also serves shards with requests that only its process can make.
    """

    def __init__(self, crawl: Crawl, shards: int) -> None:
        self._crawl = crawl
        self._all = shards
        self.peers: frozenset[str] = frozenset({crawl.worker})
        """All live workers of the crawl, this one among them."""
        self._owners = self.peers
        self._own: list[int] = list(range(shards))
        self._wanted: Counter[int] = Counter()
        self._lent: dict[int, float] = {}
        self._doubted: set[str] = set()
        self._dead: set[str] = set()

    async def update(self) -> None:
        """Reads the live workers from the engine."""
        doubted, self._doubted = self._doubted, set()
        workers, holding = await asyncio.gather(self._crawl.workers.names(), self._crawl.workers.holding())
        self.peers = frozenset({*workers, self._crawl.worker})
        # workers that hold leave their shards to the others, if there are any
        self._owners = self.peers - holding.keys() or self.peers
        self._dead |= doubted - self.peers
        self._own = [shard for shard in range(self._all) if self._owner(shard) == self._crawl.worker]

    def is_dead(self, worker: str) -> bool:
        """Whether a worker is known to be dead.

        A worker named by an entry may be newer than the last `update`. It counts as dead only if a later update does
        not list it either.
        """
        if worker not in self.peers:
            self._doubted.add(worker)
        return worker in self._dead

    def serves(self, shard: int) -> bool:
        """Whether this worker keeps hosts of a shard."""
        return (shard in self._own and shard not in self._lent) or self._wanted[shard] > 0

    def served(self) -> list[int]:
        """Returns the shards to lease hosts from now."""
        now = time.monotonic()
        self._lent = {shard: until for shard, until in self._lent.items() if until > now}
        return [shard for shard in range(self._all) if self.serves(shard)]

    def want(self, shard: int, more: int = 1) -> None:
        """Counts requests of a shard that only this process can make; `more` is negative when they are done."""
        self._wanted[shard] += more

    def lend(self, shard: int) -> None:
        """Leaves a shard to another worker for two seconds."""
        self._lent[shard] = time.monotonic() + _LENT_SECONDS

    def _owner(self, shard: int) -> str:
        return max(self._owners, key=lambda worker: xxhash.xxh3_64_intdigest(f"{worker} {shard}".encode()))
