"""Which workers a crawl has, and which shards this one serves."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import xxhash

from webcrawl.frontier import Crawl

_LENT_SECONDS = 2.0


class Membership:
    """One worker's view of the crawl's workers, as fresh as its last `update`.

    Each shard is served by one worker, chosen by rendezvous hashing (Thaler and Ravishankar 1998): a worker that comes
    or goes moves only its own share. A shard may be served by a second one for the sake of what only that one can do.
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
        """Ask the server who is there."""
        doubted, self._doubted = self._doubted, set()
        workers, holding = await asyncio.gather(self._crawl.workers.names(), self._crawl.workers.holding())
        self.peers = frozenset({*workers, self._crawl.worker})
        # who has no room to store pages leaves its share to those who have, if there are any
        self._owners = self.peers - holding.keys() or self.peers
        self._dead |= doubted - self.peers
        self._own = [shard for shard in range(self._all) if self._owner(shard) == self._crawl.worker]

    def is_dead(self, worker: str) -> bool:
        """Whether a worker, found in the frontier's data just now, was known to be gone after that."""
        if worker not in self.peers:
            self._doubted.add(worker)
        return worker in self._dead

    def serves(self, shard: int) -> bool:
        """Whether hosts of a shard are to be kept by this worker."""
        return (shard in self._own and shard not in self._lent) or self._wanted[shard] > 0

    def served(self) -> list[int]:
        """The shards to lease hosts from now."""
        now = time.monotonic()
        self._lent = {shard: until for shard, until in self._lent.items() if until > now}
        return [shard for shard in range(self._all) if self.serves(shard)]

    def want(self, shard: int, more: int = 1) -> None:
        """This worker has something (or so much less, when negative) for a shard that nobody else can do."""
        self._wanted[shard] += more

    def lend(self, shard: int) -> None:
        """Leave a shard to a worker that wants it, for a moment."""
        self._lent[shard] = time.monotonic() + _LENT_SECONDS

    def _owner(self, shard: int) -> str:
        return max(self._owners, key=lambda worker: xxhash.xxh3_64_intdigest(f"{worker} {shard}".encode()))
