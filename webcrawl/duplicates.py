"""Do two pages say the same? A SimHash of their words tells.

SimHash: Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002. Its use for web
pages, 64 bits, distance 3, search by blocks: Manku, Jain, Sarma, "Detecting near-duplicates for web
crawling", WWW 2007.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import xxhash
from simhash import Simhash

BITS = 64
# Texts with fewer words say too little: navigation alone would make different pages near-duplicates.
MIN_WORDS = 20
# The start of a text decides; the rest of a 10 MB log file would cost a quarter of a second.
MAX_CHARS = 500_000
# A shingle repeated more often than this is boilerplate.
MAX_WEIGHT = 50

# Chinese and Japanese do not separate words: there a character is one.
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W{_IDEOGRAPHS}]+")
# In UTF-8: the bytes with which these characters begin, and those between words.
_NO_IDEOGRAPH = bytes(byte for byte in range(256) if not 0xE3 <= byte <= 0xE9)
_SPACED = bytes(byte if byte > 127 or chr(byte).isalnum() or byte == 95 else 32 for byte in range(256))


def _words_of(text: str) -> list[bytes]:
    """The words of a text in lower case, in UTF-8. Punctuation outside ASCII belongs to the word that it touches."""
    text = text.lower()
    raw = text.encode("utf-8", "surrogatepass")
    if raw.translate(None, _NO_IDEOGRAPH):
        return [word.encode("utf-8", "surrogatepass") for word in _WORD.findall(text)]
    # a regular expression takes three times as long
    return raw.translate(_SPACED).split()


class _Words(dict[bytes, int]):
    """The 64-bit hashes of words met lately: a text says few words often."""

    _MOST, _LONGEST = 2**17, 40

    def __missing__(self, word: bytes) -> int:
        value = xxhash.xxh3_64_intdigest(word)
        if len(word) <= self._LONGEST:
            if len(self) >= self._MOST:
                self.clear()
            self[word] = value
        return value


_hash_of_word = _Words().__getitem__


class WeightedHashes(Simhash):  # type: ignore[misc]
    """A Simhash of (64-bit hashes, weights) as two arrays, summed by NumPy in one piece.

    The package hashes and collects one feature after the other in Python: four times slower for a page.
    """

    _ROWS = 2**14

    def __init__(self, features: tuple[npt.NDArray[np.uint64], npt.NDArray[np.float32]]) -> None:
        super().__init__(features, f=BITS, hashfunc=xxhash.xxh3_64_digest)

    def build_by_features(self, features: tuple[npt.NDArray[np.uint64], npt.NDArray[np.float32]]) -> None:
        hashes, weights = features
        sums = np.zeros(BITS, np.float64)
        for start in range(0, len(hashes), self._ROWS):
            part = hashes[start : start + self._ROWS].astype(">u8").view(np.uint8).reshape(-1, 8)
            sums += weights[start : start + self._ROWS] @ np.unpackbits(part, axis=1).astype(np.float32)
        self.value = int.from_bytes(np.packbits(sums > weights.sum(dtype=np.float64) / 2).tobytes(), "big")


def simhash64(text: str) -> int | None:
    """The unsigned 64-bit SimHash of a text's lower-cased 3-word shingles; None below `MIN_WORDS` words."""
    words = _words_of(text[:MAX_CHARS])
    if len(words) < MIN_WORDS:
        return None
    shingles, counts = np.unique(
        _shingles(np.fromiter(map(_hash_of_word, words), np.uint64, len(words))), return_counts=True
    )
    weights = np.minimum(counts, MAX_WEIGHT).astype(np.float32)
    return int(WeightedHashes((shingles, weights)).value)


def _shingles(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A hash of every three words in a row from those of the words, no strings made.

    A polynomial in an odd number keeps the order of the words, the finalizer of MurmurHash3 spreads what they have
    in common over all bits.
    """
    prime = np.uint64(0x9E3779B97F4A7C15)
    mixed = (words[:-2] * prime + words[1:-1]) * prime + words[2:]
    for factor in (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)):
        mixed = (mixed ^ (mixed >> np.uint64(33))) * factor
    shingles: npt.NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(33))
    return shingles


def distance(a: int, b: int) -> int:
    """In how many bits two fingerprints differ."""
    return (a ^ b).bit_count()


def blocks(simhash: int, distance: int = 3) -> tuple[int, ...]:
    """`distance` + 1 keys under which to file and to look for a fingerprint.

    The 64 bits are cut into that many blocks. Two fingerprints within `distance` bits agree in at least one
    whole block (pigeonhole), so they share a key; a key holds its block's number above the block's bits, so
    that different blocks never meet. At the default distance a block has 16 bits.
    """
    count = distance + 1
    width = -(-BITS // count)
    mask = (1 << width) - 1
    return tuple(number << width | (simhash >> (number * width)) & mask for number in range(count))
