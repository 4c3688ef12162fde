"""The cache of recent fingerprints in front of the shared seen set."""

from __future__ import annotations


class RecentCache:
    """Remembers which fingerprints this process has already given to the frontier; exact, bounded.

    Two generations: when the younger is full it becomes the older, and the older is forgotten. A miss costs a call to
    the server, never a URL. Forget everything when the server may have forgotten something.
    """

    def __init__(self, capacity: int = 2**18) -> None:
        self._half = max(1, capacity // 2)
        self._young: set[int] = set()
        self._old: set[int] = set()

    def add(self, fingerprint: int) -> bool:
        """Remember it; True when it was not remembered yet."""
        if fingerprint in self._young or fingerprint in self._old:
            return False
        if len(self._young) >= self._half:
            self._old, self._young = self._young, set()
        self._young.add(fingerprint)
        return True

    def __contains__(self, fingerprint: int) -> bool:
        return fingerprint in self._young or fingerprint in self._old

    def clear(self) -> None:
        self._young.clear()
        self._old.clear()
