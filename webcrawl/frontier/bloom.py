"""The seen set as a Bloom filter in this process: small, for a single worker, and inexact."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from pathlib import Path

from pybloom_live import ScalableBloomFilter

from webcrawl.errors import StoreError

ERROR_RATE = 0.001
"""The intended share of new URLs that seem seen and are never crawled; of a million random URLs, it was 0.14%."""

SETTLED_SECONDS = 5.0
"""Seconds after which the engine has its data on disk: it syncs every second, up to two seconds late."""

WRITING_SHARE = 0.05
"""The largest share of time spent on writing; a large filter is written less often."""

_FIRST_CAPACITY = 100_000


class BloomSeen:
    """Remembers fingerprints in a scalable Bloom filter with a file (Almeida et al. 2007, by pybloom-live).

    The file must never contain a URL that the frontier may lose. So the file is saved only when all added URLs are
    queued, and a checkpoint replaces it only after SETTLED_SECONDS, when the engine has the URLs on disk. After a
    crash, the filter knows less than the frontier, and some pages are fetched again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._new = path.with_suffix(".new")
        self._aside: set[int] | None = None
        """Fingerprints added while the filter is being written; None otherwise."""
        self._settles_at: float | None
        """When the written checkpoint may replace the file; None without one."""
        self.reload()

    def __len__(self) -> int:
        """Number of fingerprints added."""
        return len(self._filter) + len(self._aside or ())

    def add(self, fingerprint: int) -> bool:
        """Adds a fingerprint; returns False if it was added before or, at ERROR_RATE, seems to have been."""
        if self._aside is None:
            return not self._filter.add(fingerprint)
        if fingerprint in self._aside or fingerprint in self._filter:
            return False
        self._aside.add(fingerprint)
        return True

    async def checkpoint(self) -> None:
        """Writes the current filter in a thread; raises StoreError.

        Only `add` may be called meanwhile. May be called often: does nothing if nothing has changed, or if the last
        checkpoint has not replaced the file yet.
        """
        now = time.monotonic()
        if self._settles_at is not None:
            if now < self._settles_at:
                return
            self._replace()
        if len(self._filter) == self._written:
            return
        self._aside = set()
        try:
            await asyncio.to_thread(self._write)
            self._settles_at = now + max(SETTLED_SECONDS, (time.monotonic() - now) / WRITING_SHARE)
        finally:
            aside, self._aside = self._aside, None
            for fingerprint in aside:
                self._filter.add(fingerprint)

    def save(self) -> None:
        """Writes the filter and replaces the file at once, when the engine has all URLs. Raises StoreError."""
        if len(self._filter) != self._written:
            self._write()
            self._settles_at = 0.0
        if self._settles_at is not None:
            self._replace()

    def reload(self) -> None:
        """Returns to the file, because the frontier may have lost URLs that were added later."""
        self._filter = self._load()
        self._written = len(self._filter)
        self._settles_at = None

    def clear(self) -> None:
        """Forgets everything and deletes the file."""
        self._path.unlink(missing_ok=True)
        self.reload()

    def _write(self) -> None:
        known = len(self._filter)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._new.open("wb") as file:
                self._filter.tofile(file)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"cannot save the Bloom filter {self._path}: {error}") from error
        self._written = known

    def _replace(self) -> None:
        try:
            self._new.replace(self._path)
        except OSError as error:
            raise StoreError(f"cannot save the Bloom filter {self._path}: {error}") from error
        self._settles_at = None

    def _load(self) -> ScalableBloomFilter:
        try:
            with self._path.open("rb") as file:
                return ScalableBloomFilter.fromfile(file)
        except FileNotFoundError:
            return ScalableBloomFilter(_FIRST_CAPACITY, ERROR_RATE)
        except (OSError, ValueError, EOFError, MemoryError, OverflowError, struct.error) as error:
            raise StoreError(f"the Bloom filter {self._path} cannot be read: {error}") from error
