"""MinHash signatures of texts, and their bands for locality-sensitive hashing.

Sources: Broder, "On the resemblance and containment of documents", SEQUENCES 1997; bands: Leskovec, Rajaraman, Ullman,
"Mining of Massive Datasets", chapter 3; bytes of MinHashes: Li and König, "b-Bit minwise hashing", WWW 2010.
docs/reference/duplicates.md has what the numbers below find.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from webcrawl.config.libraries import optional
from webcrawl.documents.simhash import hashed_shingles

SHINGLE = 3
"""The words of a shingle."""
BANDS, ROWS = 42, 3
"""Two texts are compared if all `ROWS` numbers of one of `BANDS` bands of their signatures are equal."""
HASHES = 512
"""The numbers of a signature. The first `BANDS * ROWS` are in bands; all of them estimate similarities."""
_VALUES = 256
_SEED = 1
_MIX = np.uint64(0x9E3779B97F4A7C15)

Signatures = NDArray[np.uint32]
"""A row of `HASHES` numbers for each text."""
Sketches = NDArray[np.uint8]
"""The low byte of each number of a signature: as much is stored of each text."""


def rensa() -> ModuleType:
    """Returns the library of MinHash signatures; raises LibraryMissing."""
    return optional("--clusters", "rensa", "clusters", "rensa")


def signatures(texts: Sequence[str]) -> Signatures:
    """Returns the signatures of texts.

    A text with fewer words than `SHINGLE` has one shingle, which is all of it.
    """
    shingles = [hashed_shingles(text, SHINGLE) for text in texts]
    starts = np.cumsum([0, *map(len, shingles)])
    matrix = rensa().RMinHash.digest_matrix_from_flat_token_hashes(
        np.concatenate([*shingles, np.empty(0, np.uint64)]), starts.tolist(), HASHES, _SEED
    )
    return np.array(matrix.to_rows(), np.uint32).reshape(len(texts), HASHES)


def bands(rows: Signatures) -> NDArray[np.int64]:
    """Returns a hash for each band of each signature, as a row of `BANDS` numbers; those of two bands differ."""
    parts = rows[:, : BANDS * ROWS].reshape(len(rows), BANDS, ROWS).astype(np.uint64)
    mixed = np.broadcast_to(np.arange(1, BANDS + 1, dtype=np.uint64), (len(rows), BANDS)) * _MIX
    for number in range(ROWS):
        mixed = (mixed ^ parts[:, :, number]) * _MIX
        mixed ^= mixed >> np.uint64(29)
    return mixed.view(np.int64)


def sketches(rows: Signatures) -> Sketches:
    return rows.astype(np.uint8)


def similarities(first: Sketches, second: Sketches) -> NDArray[np.float64]:
    """Returns the estimated Jaccard similarity of each row of `first` and the same row of `second`.

    The shapes may be any that numpy broadcasts. Two numbers that differ have the same low byte once in 256.
    """
    shares = (first == second).mean(axis=-1)
    estimated: NDArray[np.float64] = (shares - 1 / _VALUES) / (1 - 1 / _VALUES)
    return estimated
