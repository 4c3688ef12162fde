"""SimHash: fingerprints of texts. Fingerprints of nearly equal texts differ in few bits.

Source: Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002. Its use for web
pages (64 bits, distance 3, search by blocks): Manku, Jain, Sarma, "Detecting near-duplicates for web
crawling", WWW 2007.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import xxhash
from simhash import Simhash

from webcrawl.documents.simhash_blocks import BITS, IDEOGRAPHS, MIN_WORDS

_logger = logging.getLogger("simhash")

# Only the start of a text counts.
MAX_CHARS = 2**18
# The most repetitions of a shingle that count: more are boilerplate.
MAX_WEIGHT = 50

Numbers = npt.NDArray[np.uint64]

_IDEOGRAPH = re.compile(f"([{IDEOGRAPHS}])")
# For UTF-8: bytes that begin no ideograph; bytes with separators as zeros and letters in lower case.
_NO_IDEOGRAPH = bytes(byte for byte in range(256) if not 0xE3 <= byte <= 0xE9)
# Bytes that begin no capital letter outside ASCII, except rare letters (Kelvin, circled A).
_NO_CAPITAL = bytes(
    byte for byte in range(256) if not (0xC3 <= byte <= 0xD6 or byte in (0xE1, 0xEA, 0xEF, 0xF0))
)
_SEPARATED = bytes(
    byte if byte > 127 or chr(byte).isalnum() or byte == 95 else 0 for byte in range(256)
).lower()
# The lowest bit of each byte; then the shifts that move each bit of a byte to it.
_LOWEST_BITS = np.uint64(0x0101010101010101)
_SHIFTS = np.arange(7, -1, -1, dtype=np.uint64)[:, None]
# The highest number that a byte can count to.
_MOST_BITS = 255
_SLOT = np.uint64(1023)
# Odd, so that it has an inverse modulo 2**64.
_BASE = 0x9E3779B97F4A7C15
# A text is hashed in parts of so many bytes, because that takes 50 times their memory.
_PART = 1 << 16


def simhash64(text: str) -> int | None:
    """Returns the unsigned 64-bit SimHash of a text, or None if it has fewer than `MIN_WORDS` words.

    The features are lower-cased shingles of two words. Shingles of three words found fewer changed pages and as many
    false matches; single words matched unrelated texts (docs/reference/duplicates.md).
    """
    words = _word_hashes(text)
    if len(words) < MIN_WORDS:
        return None
    return int(Hashes(limited(_shingles(words))).value)


class Hashes(Simhash):  # type: ignore[misc]
    """A Simhash of an array of 64-bit hashes, each weighted by its number of occurrences.

    The package itself hashes one feature after another in Python, which takes ten times as long.
    """

    def __init__(self, features: Numbers) -> None:
        super().__init__(features, f=BITS, hashfunc=xxhash.xxh3_64_digest, log=_logger)

    def build_by_features(self, features: Numbers) -> None:
        # counts eight bits of a hash at once, one in each byte of a number
        bits = features >> _SHIFTS
        bits &= _LOWEST_BITS
        sums = np.add.reduceat(bits, np.arange(0, len(features), _MOST_BITS), axis=1)
        counts = sums.astype(">u8").view(np.uint8).reshape(8, -1, 8).sum(axis=1, dtype=np.int64)
        majority = counts.T.ravel() > len(features) / 2
        self.value = int.from_bytes(np.packbits(majority).tobytes(), "big")


def limited(hashes: Numbers) -> Numbers:
    """Returns each hash as often as it occurs, at most `MAX_WEIGHT` times, in any order."""
    # equal hashes share a slot: counting a thousand slots is cheaper than counting each hash
    slots = (hashes & _SLOT).view(np.int64)
    counts = np.bincount(slots, minlength=int(_SLOT) + 1)
    if counts.max() <= MAX_WEIGHT:
        return hashes
    suspected = (counts > MAX_WEIGHT)[slots]
    alike, counts = np.unique(hashes[suspected], return_counts=True)
    return np.concatenate((hashes[~suspected], np.repeat(alike, np.minimum(counts, MAX_WEIGHT))))


def _word_hashes(text: str) -> Numbers:
    """Returns a 64-bit hash of each word, in order. Punctuation outside ASCII belongs to the word that it touches.

    Computes polynomial hashes over the whole text (Karp and Rabin 1987), so that no word becomes an object.
    """
    text = text[:MAX_CHARS]
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) > len(text):
        if raw.translate(None, _NO_CAPITAL):
            text = text.lower()
            raw = text.encode("utf-8", "surrogatepass")
        if raw.translate(None, _NO_IDEOGRAPH):
            raw = _IDEOGRAPH.sub(r" \1 ", text).encode("utf-8", "surrogatepass")
    letters = b"\0" + raw.translate(_SEPARATED)[: 2 * MAX_CHARS]
    parts = [_hashes_in(part) for part in _parts(letters)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _parts(letters: bytes) -> Iterator[bytes]:
    """Yields the parts of a text that begins with a separator: so does each, and ends where a word has ended."""
    start = 0
    while len(letters) - start > _PART:
        end = letters.rfind(b"\0", start + 1, start + _PART)
        if end < 0 and (end := letters.find(b"\0", start + _PART)) < 0:  # a word that is longer than a part
            break
        yield letters[start:end]
        start = end
    yield letters[start:] if start else letters


def _hashes_in(letters: bytes) -> Numbers:
    """Returns a hash of each word of a part of a text."""
    octets = np.frombuffer(letters, np.uint8)
    are_letters = octets.astype(np.bool_)
    before = (are_letters[1:] > are_letters[:-1]).nonzero()[0]
    if not len(before):
        return np.empty(0, np.uint64)
    powers, inverses = _part_powers() if len(octets) <= _PART else _powers(len(octets))
    # separators are zeros: from before a word to before the next, only its letters count
    words: Numbers = np.add.reduceat(octets * powers[: len(octets)], before)
    words *= inverses[before]
    return words


@lru_cache(maxsize=1)
def _part_powers() -> tuple[Numbers, Numbers]:
    """Returns `_powers` for a part."""
    return _powers(_PART)


def _powers(count: int) -> tuple[Numbers, Numbers]:
    """Returns the powers of _BASE modulo 2**64 from exponent 0, and the powers of its inverse from exponent 1."""
    powers = []
    for base in (_BASE, pow(_BASE, -1, 2**64)):
        factors = np.full(count, base, np.uint64)
        factors[0] = 1
        powers.append(np.cumprod(factors, dtype=np.uint64))
    return powers[0], powers[1][1:]


def hashed_shingles(text: str, size: int) -> Numbers:
    """Returns a hash of every `size` adjacent words of a text; of all its words, if it has fewer."""
    words = _word_hashes(text)
    return _shingles(words, min(size, len(words))) if len(words) else words


def _shingles(words: Numbers, size: int = 2) -> Numbers:
    """Returns a hash of every `size` adjacent words, computed from the hashes of the words.

    A polynomial keeps the order of the words; the finalizer of MurmurHash3 spreads the result over all bits.
    """
    count = len(words) - size + 1
    mixed = words[:count].copy()
    for number in range(1, size):
        mixed *= np.uint64(_BASE)
        mixed += words[number : number + count]
    for factor in (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)):
        mixed ^= mixed >> np.uint64(33)
        mixed *= factor
    mixed ^= mixed >> np.uint64(33)
    return mixed
