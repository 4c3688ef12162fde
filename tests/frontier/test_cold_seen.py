"""The part of the seen set in the store: no URL is lost, none is new twice, and few new ones cost a read."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given, strategies as st
from redis import Redis

from tests.frontier.cold import cold_of, spill
from tests.frontier.copying import copied
from tests.frontier.pages import page
from webcrawl.engine.keys import Keys
from webcrawl.errors import PartLost
from webcrawl.frontier import Candidate, Frontier
from webcrawl.frontier.cold_bucket import (
    MOST_MARKS,
    as_marks,
    has_mark,
    pack_marks,
    pieces_of,
    unpack_marks,
)

LEAST, MOST = -(2**63), 2**63 - 1
Frontiers = Callable[..., Frontier]

edges = st.sampled_from([LEAST, LEAST + 1, -(10**9), -1, 0, 1, 10**9, MOST - 1, MOST])
marks = st.sets(st.integers(LEAST, MOST) | edges, min_size=1, max_size=50).map(
    lambda found: as_marks(sorted(found))
)


def some(numbers: Iterator[int], hosts: int = 30) -> list[Candidate]:
    return [page(f"http://h{n % hosts}.test/{n}") for n in numbers]


@given(marks)
def test_a_bucket_is_stored_whole(found: np.ndarray) -> None:
    content, [empty, part] = pack_marks("name", [found[:0], found])
    raw = content[part.offset : part.offset + part.length]
    assert unpack_marks(raw, part).tolist() == found.tolist()
    assert unpack_marks(content[empty.offset : empty.offset + empty.length], empty).tolist() == []
    assert all(has_mark(found, int(mark)) for mark in found)
    with pytest.raises(PartLost):
        unpack_marks(raw[:-1] + bytes([raw[-1] ^ 1]), part)


@given(marks, st.integers(1, 8))
def test_equal_doubles_stay_in_a_piece(found: np.ndarray, near: int) -> None:
    crowd = np.unique(np.concatenate([found + step for step in range(near)]))
    pieces = [piece.astype(np.float64) for piece in pieces_of(np.repeat(crowd, 9000)[:: max(1, near)])]
    assert all(before[-1] < after[0] for before, after in zip(pieces, pieces[1:], strict=False))


def test_a_large_bucket_is_cut_into_equal_pieces() -> None:
    found = np.unique(np.random.default_rng(1).integers(LEAST, MOST, 5 * MOST_MARKS // 2))
    sizes = [len(piece) for piece in pieces_of(found)]
    assert len(sizes) == 3 and max(sizes) <= min(sizes) + 1


@pytest.mark.parametrize("shards", [1, 3])
async def test_known_urls_stay_known_in_the_store(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path, shards: int
) -> None:
    frontier = frontier_of(shards=shards)
    cold_of(frontier, tmp_path)
    numbers = random.Random(1)
    known: set[int] = set()
    for size in (20_000, 10_000, 5_000):
        new = [len(known) + n for n in range(size)]
        batch = new + numbers.sample(sorted(known), min(len(known), 2000))
        numbers.shuffle(batch)
        fresh = set(new)
        assert await frontier.add(some(iter(batch))) == [n in fresh for n in batch]
        known |= fresh
        assert await spill(frontier) > 0
        assert (await frontier.counts()).seen == len(known)
    hot = sum(valkey.scard(key) for key in valkey.scan_iter("wc:*:seen:[0-9]*"))
    assert hot == 0
    assert await frontier.add(some(iter(range(len(known))))) == [False] * len(known)
    assert (await frontier.counts()).seen == (await frontier.counts()).queued == len(known)
    assert await frontier.is_seen("http://h0.test", page("http://h0.test/0").fingerprint or 0)
    assert not await frontier.is_seen("http://h0.test", 1)


async def test_few_new_urls_of_cold_hosts_cost_a_read(
    frontier_of: Frontiers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frontier = frontier_of()
    cold, asked = cold_of(frontier, tmp_path), []

    async def counted(marks: list[int]) -> list[str]:
        asked.extend(marks)
        return await answers(marks)

    answers = cold.answers
    monkeypatch.setattr(cold, "answers", counted)
    urls = [
        replace(url, fingerprint=xxhash.xxh3_64_intdigest(url.path.encode()))
        for url in some(iter(range(30_000)))
    ]
    await frontier.add(urls[:20_000])
    await spill(frontier)
    assert all(await frontier.add(urls[20_000:]))
    assert 0 < len(asked) < 200
    assert not any(await frontier.add(urls[:100]))
    asked.clear()
    assert not any(await frontier.add(urls[:100])), "they are in the engine now"
    assert not asked


async def test_a_checkpoint_has_what_is_in_the_store(
    frontier_of: Frontiers, valkey: Redis, tmp_path: Path
) -> None:
    frontier = frontier_of()
    cold_of(frontier, tmp_path)
    urls = some(iter(range(9_000)))
    await frontier.add(urls)
    assert await spill(frontier)
    await frontier.add(urls[:3])
    await frontier.add(some(iter(range(9_000, 9_100))))
    copy = replace(frontier, keys=Keys("copy", 3))
    await copied(frontier, copy, root=tmp_path)
    assert (await copy.counts()).seen == 9_100
    assert not any(await copy.add(urls + some(iter(range(9_000, 9_100)))))
