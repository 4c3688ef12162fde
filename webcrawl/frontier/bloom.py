"""The seen set as a Bloom filter in this process: small, for one worker, at the price of some URLs never crawled."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from pybloom_live import ScalableBloomFilter

from webcrawl.errors import StoreError

ERROR_RATE = 0.001
"""The filter's design value for new URLs that are taken for seen; 0.14% were, of a million random ones."""

_FIRST_CAPACITY = 100_000


class BloomSeen:
    """Remembers fingerprints in a file-backed scalable Bloom filter (Almeida et al. 2007, by pybloom-live).

    A saved filter must never know more than the frontier: save it only when all that was added is queued. After a crash
    it knows less, and some pages are fetched again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._filter = self._load()
        self._saved = len(self._filter)

    def __len__(self) -> int:
        """How many fingerprints were added."""
        return len(self._filter)

    def add(self, fingerprint: int) -> bool:
        """Remember it; False when it was remembered before, or, with ERROR_RATE, seems to have been."""
        return not self._filter.add(fingerprint)

    def reload(self) -> None:
        """Forget what was not saved: the frontier may have lost it."""
        self._filter = self._load()
        self._saved = len(self._filter)

    def save(self) -> None:
        """Write the filter, unless nothing has changed; raises StoreError."""
        if len(self._filter) == self._saved:
            return
        temporary = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                self._filter.tofile(file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as error:
            raise StoreError(f"cannot save the Bloom filter {self._path}: {error}") from error
        self._saved = len(self._filter)

    def clear(self) -> None:
        """Forget everything, in the file too."""
        self._path.unlink(missing_ok=True)
        self._filter = ScalableBloomFilter(_FIRST_CAPACITY, ERROR_RATE)
        self._saved = 0

    def _load(self) -> ScalableBloomFilter:
        try:
            with self._path.open("rb") as file:
                return ScalableBloomFilter.fromfile(file)
        except FileNotFoundError:
            return ScalableBloomFilter(_FIRST_CAPACITY, ERROR_RATE)
        except (OSError, ValueError, EOFError, MemoryError, OverflowError, struct.error) as error:
            raise StoreError(f"the Bloom filter {self._path} cannot be read: {error}") from error
