"""The seen set as a Bloom filter in this process: small, for one worker, at the price of some URLs never crawled."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from pathlib import Path

from pybloom_live import ScalableBloomFilter

from webcrawl.errors import StoreError

ERROR_RATE = 0.001
"""The filter's design value for new URLs that are taken for seen; 0.14% were, of a million random ones."""

SETTLED_SECONDS = 5.0
"""An engine syncs its file to disk once a second; when the disk is slow, it puts that off for two seconds at most."""

WRITING_SHARE = 0.05
"""A large filter is written less often: at most this share of the time is spent on it."""

_FIRST_CAPACITY = 100_000


class BloomSeen:
    """Remembers fingerprints in a file-backed scalable Bloom filter (Almeida et al. 2007, by pybloom-live).

    A saved filter must never know more than the frontier. So it is saved only when all that was added is queued; and
    what `checkpoint` writes takes the place of the file only SETTLED_SECONDS later, when the engine has put on its disk
    what it had acknowledged by then. After a crash the filter knows less, and some pages are fetched again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._new = path.with_suffix(".new")
        self._aside: set[int] | None = None
        """What is added while the filter is being written; None when it is not."""
        self._settles_at: float | None
        """When what was written may take the place of the file; None when there is nothing that could."""
        self.reload()

    def __len__(self) -> int:
        """How many fingerprints were added."""
        return len(self._filter) + len(self._aside or ())

    def add(self, fingerprint: int) -> bool:
        """Remember it; False when it was remembered before, or, with ERROR_RATE, seems to have been."""
        if self._aside is None:
            return not self._filter.add(fingerprint)
        if fingerprint in self._aside or fingerprint in self._filter:
            return False
        self._aside.add(fingerprint)
        return True

    async def checkpoint(self) -> None:
        """Write what is known at this moment, in a thread; raises StoreError.

        Nothing else than `add` may be called until it is done. It may be called often: it does nothing when nothing has
        changed, or when what it wrote the last time has not settled yet.
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
        """Write the filter, and let it count at once: the engine is known to have everything; raises StoreError."""
        if len(self._filter) != self._written:
            self._write()
            self._settles_at = 0.0
        if self._settles_at is not None:
            self._replace()

    def reload(self) -> None:
        """Forget what was not saved, or only lately: the frontier may have lost it."""
        self._filter = self._load()
        self._written = len(self._filter)
        self._settles_at = None

    def clear(self) -> None:
        """Forget everything, in the file too."""
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
