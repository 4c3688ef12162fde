"""Caches of popular URLs, in front of the shared seen set."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T", int, str)

# The table of a set doubles at a power of two elements, so a cache has one element less.
_FINGERPRINTS = 2**18 - 1
_LINKS = 2**16 - 1
_FOLDERS = 2**14 - 1
_STEPS = 64
"""The number of steps in which the hand moves once round the ring."""


class RecentCache(Generic[T]):
    """An exact, bounded cache of fingerprints or URLs that this process has added to the frontier.

    Entries are replaced by CLOCK (second chance): they lie in a ring, and a hit marks its entry. To make room, the hand
    moves over the oldest entries, drops entries without a mark, and takes the mark from other entries. So links that
    occur again and again stay, however many other links occur once. The hand moves over many entries at a time,
    which takes half the time. A miss costs a call to the engine, never a URL. Clear the cache if the engine may
    have lost data.

    A hit takes a fifth of the time of cachetools' LRUCache, and pages have many links.

    Source: Broder, Najork, Wiener, "Efficient URL caching for World Wide Web crawling", WWW 2003.
    """

    def __init__(self, capacity: int = _FINGERPRINTS) -> None:
        self._capacity = max(1, capacity)
        self._step = -(-self._capacity // _STEPS)
        self._entries: set[T] = set()
        self._marked: set[T] = set()
        self._ring: deque[list[T]] = deque()
        """The entries from the hand on, except the newest entries."""
        self._newest: list[T] = []

    def add(self, entry: T) -> bool:
        """Adds an entry; returns True if it was not in the cache."""
        if entry in self._marked:
            return False
        if entry in self._entries:
            self._marked.add(entry)
            return False
        if len(self._entries) >= self._capacity:
            self._make_room()
        self._entries.add(entry)
        self._newest.append(entry)
        if len(self._newest) >= self._step:
            self._ring.append(self._newest)
            self._newest = []
        return True

    def __contains__(self, entry: T) -> bool:
        if entry in self._marked:
            return True
        if entry not in self._entries:
            return False
        self._marked.add(entry)
        return True

    def absent(self, several: Iterable[T]) -> list[T]:
        """Returns the entries that are not in the cache, without adding them."""
        entries, marked = self._entries, self._marked
        missing: list[T] = []
        # most entries are already marked
        for entry in [entry for entry in several if entry not in marked]:
            if entry in entries:
                marked.add(entry)
            else:
                missing.append(entry)
        return missing

    def clear(self) -> None:
        self._entries.clear()
        self._marked.clear()
        self._ring.clear()
        self._newest.clear()

    def _make_room(self) -> None:
        """Moves the hand until an entry was dropped."""
        while len(self._entries) >= self._capacity:
            oldest, marked = self._ring.popleft(), self._marked
            kept = [entry for entry in oldest if entry in marked]
            self._entries.difference_update([entry for entry in oldest if entry not in marked])
            marked.difference_update(kept)
            self._newest += kept
            if len(self._newest) >= self._step:
                self._ring.append(self._newest)
                self._newest = []


class Recent:
    """The caches of one worker.

    fingerprints   fingerprints of URLs
    links          links as written in pages, which need no fingerprint
    folders        folders that were added together with the folders above them, see `PATH_ASCENDING`
    """

    def __init__(self) -> None:
        self.fingerprints: RecentCache[int] = RecentCache(_FINGERPRINTS)
        self.links: RecentCache[str] = RecentCache(_LINKS)
        self.folders: RecentCache[str] = RecentCache(_FOLDERS)

    def clear(self) -> None:
        """Forgets everything, because the engine may have lost data."""
        self.fingerprints.clear()
        self.links.clear()
        self.folders.clear()
