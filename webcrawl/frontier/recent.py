"""Caches of URLs recently added to the frontier, in front of the shared seen set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T", int, str)

_FINGERPRINTS = 2**18


class RecentCache(Generic[T]):
    """An exact, bounded cache of fingerprints or URLs that this process has added to the frontier.

    It has two generations: when the younger is full it becomes the older, and the older is dropped. A miss costs a call
    to the engine, never a URL. Clear the cache when the engine may have lost data.
    """

    def __init__(self, capacity: int = _FINGERPRINTS) -> None:
        self._half = max(1, capacity // 2)
        self._young: set[T] = set()
        self._old: set[T] = set()

    def add(self, one: T) -> bool:
        """Adds an element; returns True if it was not in the cache."""
        if one in self._young or one in self._old:
            return False
        if len(self._young) >= self._half:
            self._old, self._young = self._young, set()
        self._young.add(one)
        return True

    def __contains__(self, one: T) -> bool:
        return one in self._young or one in self._old

    def absent(self, several: Iterable[T]) -> list[T]:
        """Returns the elements that are not in the cache, without adding them."""
        young, old = self._young, self._old
        return [one for one in several if one not in young and one not in old]

    def clear(self) -> None:
        self._young.clear()
        self._old.clear()


class Recent:
    """The caches of one worker: fingerprints, and links as written in pages, which need no fingerprint."""

    def __init__(self) -> None:
        self.fingerprints: RecentCache[int] = RecentCache(_FINGERPRINTS)
        self.links: RecentCache[str] = RecentCache(_FINGERPRINTS // 4)

    def clear(self) -> None:
        """Forgets everything, because the engine may have lost data."""
        self.fingerprints.clear()
        self.links.clear()
