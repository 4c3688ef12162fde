"""Which worker serves which shard of a crawl: even shares of the measured load, with as few moves as possible.

A shard that moves loses warm connections, robots.txt and DNS answers. So it moves for three reasons only: its worker
has left, a worker has joined and holds nothing, or its worker has clearly more load than the others. `shared_out`
handles the first two at once, `next_move` the third, a shard at a time. Both are pure, and each keeps every shard at
exactly one worker.

A move takes at most half of the difference between two workers, so it never makes the receiver the busier of the two.
Each move lessens the sum of squares of the workers' weights. So with constant loads the moves end, and no shard
goes back and forth.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

BUSY_BYTES, BUSY_HOSTS = 12.5e6, 100.0
"""Bytes per second (100 Mbit/s), and hosts that are due and not asked, that keep a worker as busy as a whole core."""
_IDLE = 0.25
"""The weight of a worker whose shards have no load. Idle shards are shared evenly too, as they may get URLs. While no
worker has more load than this, each gets the same number of shards."""
_OVERLOADED = 1.2
"""A worker whose weight is more than this many times the mean gives shards away."""
_LEAST_DIFFERENCE = 0.05
"""A worker keeps its shards if its weight exceeds the mean by less than this, in busy workers."""
_LEAST_PART = 0.25
"""A shard that weighs less than this part of the mean weight of shards does not move by load."""


@dataclass(slots=True)
class ShardLoad:
    """What a shard takes from a worker: processor cores, bytes per second, and hosts that are due and not asked."""

    cores: float = 0.0
    bytes: float = 0.0
    due: float = 0.0

    @property
    def busy(self) -> float:
        """The load as a number that can be summed; 1.0 keeps a worker busy."""
        return self.cores + self.bytes / BUSY_BYTES + self.due / BUSY_HOSTS

    def add(self, other: ShardLoad) -> None:
        """Adds another load."""
        self.cores += other.cores
        self.bytes += other.bytes
        self.due += other.due


class ShardMove(NamedTuple):
    """A shard that goes to another worker."""

    shard: int
    worker: str


def shared_out(owners: Mapping[int, str], workers: Collection[str], loads: Sequence[float]) -> dict[int, str]:
    """Returns the worker of each shard after workers have left or joined.

    `owners`: shard -> worker until now. `workers` are to serve all shards; at least one. `loads`: `ShardLoad.busy` of
    each shard. The shards of workers that left go to those with the least weight. Workers that held nothing take
    their share from those with the most. All other shards stay. While no worker is busy, shards count the same.
    """
    shares = _Shares(owners, workers, loads if _busiest(owners, loads) > _IDLE else [0.0] * len(loads))
    joined = {worker for worker, shards in shares.held.items() if not shards}
    for shard in sorted(shares.orphans, key=lambda shard: (-shares.weights[shard], shard)):
        shares.give(shard, shares.lightest(workers))
    while joined and (move := shares.move_to(shares.lightest(joined))):
        shares.move(move)
    return {shard: worker for worker, shards in shares.held.items() for shard in shards}


def next_move(
    owners: Mapping[int, str], workers: Collection[str], loads: Sequence[float], resting: Container[int] = ()
) -> ShardMove | None:
    """Returns the move that relieves the busiest overloaded worker with a shard to give; None without one.

    `owners`: the worker of each shard, all of them among `workers`. Shards that are `resting` stay.
    """
    shares = _Shares(owners, workers, loads)
    mean = sum(shares.weights) / len(workers)
    most = max(_OVERLOADED * mean, mean + _LEAST_DIFFERENCE)
    lightest, least = shares.lightest(workers), _LEAST_PART * sum(shares.weights) / len(loads)
    for worker in sorted(workers, key=shares.key, reverse=True):
        if shares.sums[worker] <= most:
            return None
        move = shares.levelling(worker, lightest, resting, least)
        # a worker that is busy because of one shard has nothing to give
        if move:
            return move
    return None


def _busiest(owners: Mapping[int, str], loads: Sequence[float]) -> float:
    """Returns the greatest load of a worker, or of the shards that have none."""
    sums: dict[str, float] = {}
    for shard, load in enumerate(loads):
        owner = owners.get(shard, "")
        sums[owner] = sums.get(owner, 0.0) + load
    return max(sums.values(), default=0.0)


class _Shares:
    """The shards that each worker holds, with their weights."""

    def __init__(self, owners: Mapping[int, str], workers: Collection[str], loads: Sequence[float]) -> None:
        idle = _IDLE * len(workers) / len(loads)
        self.weights = [idle + load for load in loads]
        self.held: dict[str, set[int]] = {worker: set() for worker in workers}
        self.sums = dict.fromkeys(workers, 0.0)
        self.orphans: list[int] = []
        for shard in range(len(loads)):
            if (worker := owners.get(shard, "")) in self.held:
                self.give(shard, worker)
            else:
                self.orphans.append(shard)

    def key(self, worker: str) -> tuple[float, str]:
        return self.sums[worker], worker

    def lightest(self, workers: Collection[str]) -> str:
        return min(workers, key=self.key)

    def move_to(self, receiver: str) -> ShardMove | None:
        """Returns the move of a shard to `receiver` from the heaviest worker that can give one; None if none can."""
        givers = sorted(self.held, key=self.key, reverse=True)
        # the heaviest may have one hot shard, which is too much for any other
        return next(filter(None, (self.levelling(giver, receiver) for giver in givers)), None)

    def give(self, shard: int, worker: str) -> None:
        self.held[worker].add(shard)
        self.sums[worker] += self.weights[shard]

    def move(self, move: ShardMove) -> None:
        for worker, shards in self.held.items():
            if move.shard in shards:
                shards.remove(move.shard)
                self.sums[worker] -= self.weights[move.shard]
        self.give(*move)

    def levelling(
        self, giver: str, receiver: str, resting: Container[int] = (), least: float = 0.0
    ) -> ShardMove | None:
        """Returns the move of the heaviest shard that leaves the giver at least as heavy as the receiver; or None.

        The shard weighs at least `least`.
        """
        gap = self.sums[giver] - self.sums[receiver]
        # sums of the same weights in another order differ by rounding
        fitting = [
            shard
            for shard in self.held[giver]
            if shard not in resting and least <= self.weights[shard] <= gap / 2 + 1e-9
        ]
        if giver == receiver or not fitting:
            return None
        return ShardMove(max(fitting, key=lambda shard: (self.weights[shard], -shard)), receiver)
