"""The share of one worker in its crawl: the shards that it serves, and the page permits that it has reserved."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter

import xxhash

from webcrawl.errors import ConfigurationError
from webcrawl.frontier import Crawl
from webcrawl.worker.shard_sharing import ShardSharing

_LENT_SECONDS = 2.0
AHEAD_SECONDS = 0.5
"""A worker reserves permits for the pages of this time; a reservation takes a few hundredths of a second."""
_SHORTEST = 0.01
_LONGEST = 1.0


class Membership:
    """One worker's view of the membership, as of its last `update`.

    The worker with the first name shares the shards out (see `ShardSharing`), and the others read its list. Rendezvous
    hashing (Thaler and Ravishankar 1998) chooses a worker for a shard whose worker has left, and shards for a worker
    that is not in the list, until the list is revised. Two workers may serve a shard meanwhile, or none: a host is
    leased to one worker only in any case. A worker also serves shards with requests that only its process can make.
    """

    def __init__(self, crawl: Crawl, shards: int, *, alone: bool = False) -> None:
        """`alone`: the crawl must have no other worker."""
        self._crawl = crawl
        self._all = shards
        self._alone = alone
        self.peers: frozenset[str] = frozenset({crawl.worker})
        """All live workers of the crawl, this one among them."""
        self._owners = self.peers
        self._sharing = ShardSharing(crawl, shards)
        self._shares: dict[int, str] = {}
        self._own = frozenset(range(shards))
        self._wanted: Counter[int] = Counter()
        self._lent: dict[int, float] = {}
        self._doubted: set[str] = set()
        self._dead: set[str] = set()

    async def update(self) -> None:
        """Reads the live workers from the engine; raises ConfigurationError if this worker must be alone and is not."""
        doubted, self._doubted = self._doubted, set()
        registry = self._crawl.workers
        workers, holding, shares = await asyncio.gather(
            registry.names(), registry.holding(), registry.shares()
        )
        self.peers = frozenset({*workers, self._crawl.worker})
        if self._alone and len(self.peers) > 1:
            raise ConfigurationError(
                'SEEN_SET = "bloom" works with a single worker, but this crawl has several. '
                'Set SEEN_SET = "exact" or stop the other workers.'
            )
        # workers that hold leave their shards to the others, if there are any
        self._owners = self.peers - holding.keys() or self.peers
        self._dead |= doubted - self.peers
        is_first = self._crawl.worker == min(self.peers)
        self._shares = await self._sharing.revised(shares, self._owners) if is_first else shares
        is_listed = self._crawl.worker in self._shares.values()
        own = (shard for shard in range(self._all) if self._owner(shard, is_listed) == self._crawl.worker)
        self._own = frozenset(own)

    def is_dead(self, worker: str) -> bool:
        """Whether a worker is known to be dead.

        A worker that a queue entry names may be newer than the last `update`. It counts as dead only if a later update
        does not list it either.
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
        """Counts requests to a shard that only this process can make; `more` is negative when they are done."""
        self._wanted[shard] += more

    def lend(self, shard: int) -> None:
        """Leaves a shard to another worker for two seconds."""
        self._lent[shard] = time.monotonic() + _LENT_SECONDS

    def _owner(self, shard: int, is_listed: bool) -> str:
        if is_listed and (owner := self._shares.get(shard, "")) in self._owners:
            return owner
        return max(self._owners, key=lambda worker: xxhash.xxh3_64_intdigest(f"{worker} {shard}".encode()))


class Permits:
    """One permit for each page. A `limit` of 0 means no limit.

    Each URL takes a permit when it is handed out, and returns it if it turns out to be no page. The engine counts all
    reserved permits of the crawl, so the limit holds exactly for any number of workers. Permits of a worker without
    heartbeats go to other workers. If that worker is alive after all, only its fetches in flight exceed the limit.

    Permits are reserved by demand, before the last one is taken. Permits that are not needed go back to the crawl
    within a second or two.
    """

    def __init__(self, crawl: Crawl, limit: int) -> None:
        self._crawl = crawl
        self._limit = limit
        self._free = 0
        self._used = 0
        self._ahead = 0
        self._taken = 0
        self._since = time.monotonic()
        """When `_taken` began to count."""
        self.valid_until = math.inf
        """Monotonic time at which the engine may have given the free permits to others."""
        self.short = False
        """A permit was wanted and none was free."""
        self.pages = 0
        """Pages that this worker has finished."""

    @property
    def low(self) -> bool:
        """Whether it is time to call `reserve`."""
        return self.short or 2 * self._free < self._ahead

    def take(self) -> bool:
        """Takes a permit; returns False if none is free."""
        if not self._limit:
            return True
        if time.monotonic() > self.valid_until:
            self.give_back()
        if self._free > 0:
            self._free -= 1
            self._taken += 1
            return True
        self.short = True
        return False

    def settle(self, *, page: bool) -> None:
        """Uses the permit of a URL that was a page, or frees it."""
        if page:
            self._used += 1
            self.pages += 1
        else:
            self._free += 1

    def give_back(self, kept: int = 0) -> None:
        """Returns the free permits to the crawl, except `kept` of them."""
        back = max(0, self._free - kept)
        self._used += back
        self._free -= back
        self._ahead = min(self._ahead, kept)

    def give_back_unneeded(self, due: int) -> None:
        """Returns the permits that neither `due` URLs nor the rate of the last second need; call it often."""
        if self._limit and self._free and time.monotonic() - self._since >= _LONGEST:
            self.give_back(kept=self._needed(due))

    def take_used(self) -> int:
        """Returns the number of permits that were used or given back since the last call."""
        used, self._used = self._used, 0
        return used if self._limit else 0

    async def reserve(self, due: int) -> bool:
        """Reserves permits for `due` URLs and for the present rate, at least one; returns whether a permit is free.

        When few permits are left, the engine grants each worker its share.
        """
        self._ahead = max(1, self._needed(due))
        if self._free < self._ahead:
            granted = await self._crawl.workers.reserve_pages(self._ahead - self._free, self._limit)
            self._free += granted  # after the await, because a URL may have been settled meanwhile
            # what is refused now is asked for again when a permit is wanted
            self._ahead = min(self._ahead, self._free)
        if self._free > 0:
            self.short = False
        return not self.short

    async def exhausted(self) -> bool:
        """Whether the crawl has as many pages as the limit allows."""
        return (await self._crawl.totals()).get("pages", 0) >= self._limit

    def _needed(self, due: int) -> int:
        now = time.monotonic()
        rate = self._taken / max(now - self._since, _SHORTEST)
        self._taken, self._since = 0, now
        return max(due, math.ceil(rate * AHEAD_SECONDS))
