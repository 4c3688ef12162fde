"""Payload digests and SimHash."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st
from simhash import Simhash

from webcrawl.documents import simhash
from webcrawl.documents.exchange import digest
from webcrawl.documents.simhash import MAX_CHARS, MAX_WEIGHT, Hashes, hashed_shingles, limited, simhash64
from webcrawl.documents.simhash_blocks import MIN_WORDS, blocks, distance, has_simhash

FINGERPRINTS = st.integers(0, 2**64 - 1)
WORDS = [f"word{number}" for number in range(5_000)]


def text_of(count: int, seed: int = 1) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=count))


def test_digest_has_the_form_used_in_warc_files() -> None:
    assert digest(b"") == "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"
    assert digest(b"a") != digest(b"b")


def test_equal_words_have_equal_fingerprints() -> None:
    text = text_of(500)
    assert simhash64(text) == simhash64(text.upper().replace(" ", "  ,\n"))


def test_small_change_is_near_and_another_text_is_far() -> None:
    text = text_of(3_000)
    changed = text.replace(text.split()[1_500], "replacement", 1)
    one, near, other = simhash64(text), simhash64(changed), simhash64(text_of(3_000, seed=2))
    assert one is not None and near is not None and other is not None
    assert distance(one, near) <= 3
    assert distance(one, other) > 16


@given(
    st.lists(
        st.sampled_from(
            ["a", "B9_", "é", "K", "漢", "字かな", " ", "\n", "-", ".", "\0", "\ud800", "\u3000"]
        ),
        max_size=60,
    )
)
def test_texts_with_few_words_are_known_without_numpy(parts: list[str]) -> None:
    text = "".join(parts)
    assert has_simhash(text) == (simhash64(text) is not None)


@given(st.integers(1, 300_000))
def test_the_length_of_the_rest_of_a_text_does_not_change_its_words(length: int) -> None:
    """The powers that hash the words are kept for few lengths of texts."""
    words = text_of(100)
    assert simhash64(words) == simhash64(words + " " * length)


def _read_hex(feature: bytes) -> bytes:
    return (
        b"12345678" if feature == b"test" else bytes.fromhex(feature.decode())
    )  # the package tests the function with b"test"


@given(st.dictionaries(FINGERPRINTS, st.integers(1, MAX_WEIGHT), min_size=1, max_size=60))
def test_value_equals_that_of_the_simhash_package(weights: dict[int, int]) -> None:
    hashes = np.repeat(np.array(list(weights), np.uint64), list(weights.values()))
    features = {f"{value:016x}": weight for value, weight in weights.items()}
    package = Simhash(features, hashfunc=_read_hex)
    assert Hashes(hashes).value == package.value


@given(
    st.dictionaries(FINGERPRINTS, st.integers(1, 3 * MAX_WEIGHT), min_size=1, max_size=60),
    st.sampled_from((1, 1024)),
)
def test_weight_of_repeated_hashes_is_limited(weights: dict[int, int], apart: int) -> None:
    """Also for hashes with equal low bits."""
    weights = {value * apart % 2**64: weight for value, weight in weights.items()}
    hashes = np.repeat(np.array(list(weights), np.uint64), list(weights.values()))
    expected = Counter({value: min(weight, MAX_WEIGHT) for value, weight in weights.items()})
    assert Counter(limited(hashes).tolist()) == expected


def test_fingerprints_stay_those_that_earlier_crawls_stored() -> None:
    """Values of the first version: an index that a crawl resumes with holds such."""
    stored = {
        text_of(20): 0xF019C85F55EA10C3,
        text_of(500): 0x6627C40E87AABFA3,
        text_of(60_000): 0x3B4C52107B989D4A,  # cut off within a word
        "buy it now " * 10_000: 0x990159CC014FF5BF,
        "吾輩は猫である。名前はまだ無い。" * 3: 0xFBA1B75C8D874EBF,
        "Съешь же ещё этих мягких ФРАНЦУЗСКИХ булок, да выпей чаю. " * 3: 0x839B11584E632EF1,
        "Élan vital, snake_case and it\u2019s 42% of café\0society. " * 5: 0x923EA90F222FE3C6,
    }
    assert {text: simhash64(text) for text in stored} == stored


def test_order_of_words_matters() -> None:
    words = text_of(300).split()
    one, other = simhash64(" ".join(words)), simhash64(" ".join(reversed(words)))
    assert one is not None and other is not None and distance(one, other) > 8


def test_short_text_has_no_fingerprint() -> None:
    assert simhash64("") is None
    assert simhash64(text_of(MIN_WORDS - 1)) is None
    assert simhash64(text_of(MIN_WORDS)) is not None


def test_many_repetitions_do_not_overflow() -> None:
    """The simhash package raises OverflowError with NumPy 2 for weights above 255."""
    assert simhash64("buy it now " * 10_000) is not None


def test_text_without_spaces_or_in_other_scripts_has_a_fingerprint() -> None:
    assert simhash64("吾輩は猫である名前はまだ無いどこで生れたかとんと見当がつかぬ") is not None
    assert simhash64("Съешь же ещё этих мягких французских булок, да выпей чаю. " * 3) is not None


@given(st.text(max_size=2_000))
def test_fingerprint_is_unsigned_64_bit(text: str) -> None:
    fingerprint = simhash64(text)
    assert fingerprint is None or 0 <= fingerprint < 2**64


@given(FINGERPRINTS, FINGERPRINTS)
def test_distance_counts_bits(a: int, b: int) -> None:
    assert distance(a, b) == distance(b, a) == f"{a ^ b:b}".count("1")


@given(FINGERPRINTS, st.data(), st.integers(0, 7))
def test_fingerprints_within_the_distance_share_a_block(a: int, data: st.DataObject, limit: int) -> None:
    b = a
    for bit in data.draw(st.sets(st.integers(0, 63), max_size=limit)):
        b ^= 1 << bit
    assert set(blocks(a, limit)) & set(blocks(b, limit))


@given(FINGERPRINTS)
def test_blocks_are_distinct_and_complete(a: int) -> None:
    keys = blocks(a)
    assert len(set(keys)) == 4
    assert all(key >> 16 == number for number, key in enumerate(keys))
    assert sum((key & 0xFFFF) << 16 * number for number, key in enumerate(keys)) == a


@given(st.text("aB _.é日語Å\ud800", max_size=150), st.integers(1, 40))
def test_parts_of_a_text_have_the_hashes_of_the_whole(text: str, size: int) -> None:
    whole = hashed_shingles(text, 1).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simhash, "_PART", size)
        patch.setattr(simhash, "_part_powers", lambda: simhash._powers(size))
        assert hashed_shingles(text, 1).tolist() == whole


def test_a_long_text_keeps_little_memory() -> None:
    text = text_of(60_000)
    assert len(text) > MAX_CHARS
    simhash64("Warm up: " + text_of(100))
    tracemalloc.start()
    try:
        simhash64(text)
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
