"""The shares of shards: each shard at one worker, few moves, even loads, and no shard that goes back and forth."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from webcrawl.policies.shard_shares import BUSY_BYTES, ShardLoad, next_move, shared_out

LOADS = st.lists(st.floats(0, 0.2), min_size=1, max_size=80)
NAMES = st.sets(st.integers(0, 30).map("w{}".format), min_size=1, max_size=14)
STEADY = settings(max_examples=50, deadline=None)


def _sums(owners: dict[int, str], workers: set[str], loads: list[float]) -> dict[str, float]:
    sums = dict.fromkeys(workers, 0.0)
    for shard, worker in owners.items():
        sums[worker] += loads[shard]
    return sums


@STEADY
@given(LOADS, st.lists(NAMES, min_size=1, max_size=6))
def test_each_shard_is_at_one_live_worker_after_any_changes(
    loads: list[float], memberships: list[set[str]]
) -> None:
    owners: dict[int, str] = {}
    for workers in memberships:
        before, owners = owners, shared_out(owners, workers, loads)
        assert sorted(owners) == list(range(len(loads)))
        assert set(owners.values()) <= workers
        newcomers = workers - set(before.values())
        moved = [shard for shard in owners if owners[shard] != before.get(shard)]
        assert all(before.get(shard) not in workers or owners[shard] in newcomers for shard in moved)
        assert shared_out(owners, workers, loads) == owners, "without a change, nothing moves"


@STEADY
@given(st.integers(1, 300), st.integers(1, 16), st.integers(0, 2**32))
def test_shares_of_equal_shards_stay_even_while_workers_die_and_join(
    shards: int, most: int, seed: int
) -> None:
    dice = random.Random(seed)
    workers = {f"w{n}" for n in range(most)}
    owners: dict[int, str] = {}
    for number in range(12):
        # such small loads do not count
        loads = [dice.uniform(0, 0.25 / shards) for _ in range(shards)]
        owners = shared_out(owners, workers, loads)
        counts = Counter(dict.fromkeys(workers, 0))
        counts.update(owners.values())
        assert max(counts.values()) - min(counts.values()) <= 1
        workers = {worker for worker in workers if dice.random() < 0.8} | {f"new{number}"}


def test_a_worker_that_joins_takes_its_share_and_nothing_else_moves() -> None:
    old = {f"w{n}" for n in range(11)}
    loads = [0.05] * 240
    before = shared_out({}, old, loads)
    after = shared_out(before, {*old, "new"}, loads)
    moved = [shard for shard in after if after[shard] != before[shard]]
    assert len(moved) == 20
    assert {after[shard] for shard in moved} == {"new"}


def test_a_worker_joins_beside_one_with_a_hot_shard() -> None:
    before = {0: "hot", **{shard: f"w{shard % 3}" for shard in range(1, 31)}}
    loads = [0.95, *[0.05] * 30]
    after = shared_out(before, {"hot", "w0", "w1", "w2", "new"}, loads)
    assert sorted(Counter(after.values()).values()) == [1, 7, 7, 8, 8]


@STEADY
@given(LOADS, NAMES)
def test_moves_by_load_end_and_leave_no_move_that_would_help(loads: list[float], workers: set[str]) -> None:
    owners = {shard: min(workers) for shard in range(len(loads))}
    squares = []
    base = 0.25 * len(workers) / len(loads)
    for _ in range(3 * len(loads)):
        weights = [base + load for load in loads]
        squares.append(sum(value**2 for value in _sums(owners, workers, weights).values()))
        move = next_move(owners, workers, loads)
        if move is None:
            break
        assert owners[move.shard] != move.worker
        owners[move.shard] = move.worker
    else:
        pytest.fail("the moves do not end")
    assert squares == sorted(squares, reverse=True)
    sums = _sums(owners, workers, weights)
    mean, gap = sum(weights) / len(workers), max(sums.values()) - min(sums.values())
    busiest = max(sums, key=lambda worker: sums[worker])
    if sums[busiest] > max(1.2 * mean, mean + 0.05) + 1e-6:
        left = [weights[shard] for shard in owners if owners[shard] == busiest]
        least = 0.25 * sum(weights) / len(weights)
        assert all(weight > gap / 2 - 1e-6 or weight < least + 1e-6 for weight in left)


@STEADY
@given(st.integers(2, 12), st.integers(4, 20), st.integers(0, 2**32))
def test_loads_that_vary_by_a_tenth_move_nothing_back(workers: int, each: int, seed: int) -> None:
    """An hour of measurements after the loads were shared out: of its 180 looks, hardly any moves a shard."""
    dice = random.Random(seed)
    names = {f"w{n}" for n in range(workers)}
    loads = [dice.expovariate(each) for _ in range(workers * each)]
    owners = {shard: f"w{shard % workers}" for shard in range(len(loads))}
    visits: list[tuple[int, str]] = []
    for _ in range(180):
        measured = [load * dice.uniform(0.9, 1.1) for load in loads]
        if move := next_move(owners, names, measured):
            visits.append((move.shard, owners[move.shard]))
            assert (move.shard, move.worker) not in visits, "a shard went back to a worker that it had left"
            owners[move.shard] = move.worker
    assert len(visits) <= len(loads) / 2


def test_light_loads_move_nothing() -> None:
    assert next_move({0: "a", 1: "a", 2: "b", 3: "b"}, {"a", "b"}, [0.01, 0.01, 0.0, 0.0]) is None


def test_the_other_shards_leave_a_worker_with_a_hot_shard() -> None:
    owners = {0: "a", 1: "a", 2: "a", 3: "b"}
    loads = [0.9, 0.1, 0.1, 0.1]
    moved = []
    while move := next_move(owners, {"a", "b"}, loads):
        owners[move.shard] = move.worker
        moved.append(move.shard)
    assert sorted(moved) == [1, 2]
    assert next_move({0: "a", 1: "a", 2: "a", 3: "b"}, {"a", "b"}, loads, resting={1, 2}) is None


def test_the_measures_of_a_load_are_summed_as_parts_of_a_busy_worker() -> None:
    load = ShardLoad(cores=0.5)
    load.add(ShardLoad(bytes=BUSY_BYTES / 4, due=25))
    assert load.busy == pytest.approx(1.0)
