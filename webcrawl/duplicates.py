"""Do two pages say the same? A SimHash of their words tells.

SimHash: Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002. Its use for web
pages, 64 bits, distance 3, search by blocks: Manku, Jain, Sarma, "Detecting near-duplicates for web
crawling", WWW 2007.
"""

from __future__ import annotations

import re
from collections import Counter

import xxhash
from simhash import Simhash

BITS = 64
# Texts with fewer words say too little: navigation alone would make different pages near-duplicates.
MIN_WORDS = 20
# The start of a text decides; the rest of a 10 MB log file would cost a quarter of a second.
MAX_CHARS = 500_000
# The package sums weights above 50 in 8-bit integers, which NumPy 2 refuses above 255; a shingle repeated
# more often than this is boilerplate anyway.
MAX_WEIGHT = 50

# Chinese and Japanese do not separate words: there a character is one.
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W{_IDEOGRAPHS}]+")
_ASCII_WORD = re.compile(r"\w+", re.ASCII)


def simhash64(text: str) -> int | None:
    """The unsigned 64-bit SimHash of a text's lower-cased 3-word shingles; None below `MIN_WORDS` words."""
    text = text[:MAX_CHARS].lower()
    words = (_ASCII_WORD if text.isascii() else _WORD).findall(text)
    if len(words) < MIN_WORDS:
        return None
    shingles = Counter(map(" ".join, zip(words, words[1:], words[2:], strict=False)))
    weights = {shingle: min(weight, MAX_WEIGHT) for shingle, weight in shingles.items()}
    return int(Simhash(weights, f=BITS, hashfunc=xxhash.xxh3_64_digest).value)


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
