"""The libraries simhash and pybloom-live, by themselves and as the project uses them."""

from __future__ import annotations

import random
import re
from itertools import count
from pathlib import Path

import xxhash
from pytest_benchmark.fixture import BenchmarkFixture
from simhash import Simhash

from benchmarks.micro.test_page import document
from webcrawl.documents.html.facts import describe
from webcrawl.frontier.bloom import BloomSeen

URLS = 1_000


def shingles(text: str) -> list[str]:
    words = re.findall(r"\w+", text.lower())
    return [f"{first} {second}" for first, second in zip(words, words[1:], strict=False)]


def test_simhash_package(benchmark: BenchmarkFixture, body: bytes) -> None:
    """Of the same text, by the package simhash alone: shingles of two words, MD5."""
    text = describe(document(body)).text
    assert benchmark(lambda: Simhash(shingles(text)).value)


def test_simhash_package_with_xxhash(benchmark: BenchmarkFixture, body: bytes) -> None:
    """The same with XXH3 in place of MD5."""
    text = describe(document(body)).text
    assert benchmark(lambda: Simhash(shingles(text), hashfunc=xxhash.xxh3_64_digest).value)


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
