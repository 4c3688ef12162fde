"""The caches of what was lately given to the frontier, in front of the shared seen set."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T", int, str)

_FINGERPRINTS = 2**18


class RecentCache(Generic[T]):
    """Remembers which fingerprints or URLs this process has already given to the frontier; exact, bounded.

    Two generations: when the younger is full it becomes the older, and the older is forgotten. A miss costs a call to
    the server, never a URL. Forget everything when the server may have forgotten something.
    """

    def __init__(self, capacity: int = _FINGERPRINTS) -> None:
        self._half = max(1, capacity // 2)
        self._young: set[T] = set()
        self._old: set[T] = set()

    def add(self, one: T) -> bool:
        """Remember it; True when it was not remembered yet."""
        if one in self._young or one in self._old:
            return False
        if len(self._young) >= self._half:
            self._old, self._young = self._young, set()
        self._young.add(one)
        return True

    def __contains__(self, one: T) -> bool:
        return one in self._young or one in self._old

    def clear(self) -> None:
        self._young.clear()
        self._old.clear()


class Recent:
    """What a worker lately gave to the frontier: fingerprints, and links as pages have them, which cost less."""

    def __init__(self) -> None:
        self.fingerprints: RecentCache[int] = RecentCache(_FINGERPRINTS)
        self.links: RecentCache[str] = RecentCache(_FINGERPRINTS // 4)

    def clear(self) -> None:
        """Forget everything: the server may have forgotten something."""
        self.fingerprints.clear()
        self.links.clear()
