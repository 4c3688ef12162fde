"""The filter of SEEN_SET = "bloom"."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path

from pytest_benchmark.fixture import BenchmarkFixture

from webcrawl.frontier.bloom import BloomSeen

URLS = 1_000


def test_bloom_new(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """1,000 new fingerprints added to the filter of SEEN_SET = "bloom", by pybloom-live."""
    dice, seen, rounds = random.Random(1), BloomSeen(tmp_path / "seen"), count()

    def add() -> int:
        next(rounds)
        return sum(seen.add(dice.getrandbits(64)) for _ in range(URLS))

    assert benchmark(add) > 0.99 * URLS
    assert len(seen) > 0.99 * URLS * next(rounds)


def test_bloom_known(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """1,000 fingerprints that the filter knows."""
    dice, seen = random.Random(1), BloomSeen(tmp_path / "seen")
    known = [dice.getrandbits(64) for _ in range(URLS)]
    for fingerprint in known:
        seen.add(fingerprint)
    assert benchmark(lambda: sum(map(seen.add, known))) == 0
