"""Measures the load of each shard at a worker, and shares out the shards of a crawl among its workers by load."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from webcrawl.engine.keys import Keys
from webcrawl.errors import EngineUnavailable
from webcrawl.frontier import Crawl
from webcrawl.frontier.workers import AllVitals
from webcrawl.hosts.costs import Cost
from webcrawl.policies.shard_shares import ShardLoad, next_move, shared_out

logger = logging.getLogger(__name__)

_MOVE_SECONDS = 20.0
"""Seconds between two moves by load, so that loads are measured again after each move."""
_REST_SECONDS = 300.0
"""Seconds for which a shard that was moved by load stays."""
_MEAN_SECONDS = 30.0
"""The time over which a load is averaged, in seconds."""
_LEAST_LOAD = 1e-4
"""The load, in busy workers, below which a shard is not listed."""


@dataclass(slots=True)
class ShardLoadMeter:
    """The load of each shard at one worker: exponential means of what its hosts took."""

    keys: Keys
    _loads: dict[int, ShardLoad] = field(default_factory=dict, init=False)
    _measured: float = field(default_factory=time.monotonic, init=False)
    _processor: float = field(default_factory=time.process_time, init=False)

    def note(self, costs: Mapping[str, Cost], due: Iterable[str]) -> None:
        """Notes the costs of hosts since the last call, and the hosts that are due now and not asked.

        Processor time that belongs to no host is divided among the shards in proportion to their bytes.
        """
        now, processor = time.monotonic(), time.process_time()
        seconds = max(now - self._measured, 1e-3)
        news = self._by_shard(costs, due)
        rest = max(0.0, processor - self._processor - sum(load.cores for load in news.values()))
        received = sum(load.bytes for load in news.values())
        keep = math.exp(-seconds / _MEAN_SECONDS)
        for shard in {*self._loads, *news}:
            load, new = self._loads.setdefault(shard, ShardLoad()), news.get(shard, ShardLoad())
            cores = new.cores + (rest * new.bytes / received if received else 0.0)
            load.cores += (1 - keep) * (cores / seconds - load.cores)
            load.bytes += (1 - keep) * (new.bytes / seconds - load.bytes)
            load.due += (1 - keep) * (new.due - load.due)
        self._measured, self._processor = now, processor
        self._loads = {shard: load for shard, load in self._loads.items() if load.busy >= _LEAST_LOAD}

    def loads(self) -> list[tuple[int, float, float, float]]:
        """Returns the shards with a load: shard, processor cores, bytes per second, hosts that are due."""
        return [(shard, load.cores, load.bytes, load.due) for shard, load in sorted(self._loads.items())]

    def _by_shard(self, costs: Mapping[str, Cost], due: Iterable[str]) -> dict[int, ShardLoad]:
        """Returns seconds of processor time (in `cores`), bytes and due hosts of each shard."""
        sums: dict[int, ShardLoad] = {}
        for host, cost in costs.items():
            if "://" in host:  # the other names are domains, and that of the sum
                sums.setdefault(self.keys.shard(host), ShardLoad()).add(ShardLoad(cost.seconds, cost.bytes))
        for host in due:
            sums.setdefault(self.keys.shard(host), ShardLoad()).due += 1
        return sums


class ShardSharing:
    """The work of the worker that shares out the shards among all workers.

    Shards of workers that left, and the share of a worker that joined, move with the next heartbeat. At most three
    shards a minute move because of load. If two workers share out at the same time, the later list counts.
    """

    def __init__(self, crawl: Crawl, shards: int) -> None:
        self._crawl = crawl
        self._shards = shards
        self._next_move = math.inf
        """Monotonic time of the next move by load; infinite until this worker shares out."""
        self._resting: dict[int, float] = {}

    async def revised(self, shares: Mapping[int, str], workers: Collection[str]) -> dict[int, str]:
        """Returns shard -> worker among `workers`; stores it if it differs from the stored `shares`."""
        now = time.monotonic()
        if math.isinf(self._next_move):
            self._next_move = now + _MOVE_SECONDS
        owners = dict(shares)
        holders = set(owners.values())
        # with more workers than shards, some hold nothing
        is_shared_out = holders <= set(workers) and len(holders) == min(len(workers), self._shards)
        if not is_shared_out or len(owners) != self._shards:
            owners = shared_out(owners, workers, await self._loads())
        elif now >= self._next_move:
            self._next_move = now + _MOVE_SECONDS
            self._resting = {shard: until for shard, until in self._resting.items() if until > now}
            if move := next_move(owners, workers, await self._loads(), self._resting):
                logger.info(
                    "Shard %d moves from worker %s to %s, which has less load.",
                    move.shard,
                    owners[move.shard],
                    move.worker,
                )
                owners[move.shard] = move.worker
                self._resting[move.shard] = now + _REST_SECONDS
        if owners != shares:
            try:
                await self._crawl.workers.share_out(owners)
            except EngineUnavailable:
                # a full engine refuses the list, so all workers go on with the stored list
                return dict(shares)
        return owners

    async def _loads(self) -> list[float]:
        """Returns the load of each shard, over all workers."""
        loads = [0.0] * self._shards
        vitals = AllVitals(self._crawl.engine, self._crawl.keys)
        for worker in (await vitals.of(await self._crawl.workers.names())).values():
            for shard, *measures in worker.loads:
                if shard < self._shards:
                    loads[shard] += ShardLoad(*measures).busy
        return loads
