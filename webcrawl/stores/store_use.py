"""The bytes below STORE_URI, against a quota that an operator states, such as the quota of an S3 bucket."""

from __future__ import annotations

import time

from webcrawl.documents.values import size
from webcrawl.stores.objects.store import ObjectStore

_LOOKS_SHARE = 0.01
"""The largest part of the time in which a store is listed: a listing of S3 has a request for each 1,000 objects."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 5.0, 600.0


class StoreUse:
    """How much of a quota in bytes is used. `look` lists the store and blocks; the rest is what it saw last."""

    def __init__(self, store: ObjectStore, quota: int, most_share: float) -> None:
        self._store = store
        self._quota = quota
        self._most_share = most_share
        self.used: int | None = None
        """The bytes of all objects at the last look, also those of other crawls; None before the first."""
        self.pause = _SHORTEST_PAUSE
        """Seconds until the next look."""

    def look(self) -> None:
        """Lists the store; raises StoreError."""
        began = time.monotonic()
        self.used = sum(stored.size for stored in self._store.objects())
        seconds = time.monotonic() - began
        self.pause = min(max(seconds / _LOOKS_SHARE, _SHORTEST_PAUSE), _LONGEST_PAUSE)

    @property
    def share(self) -> float:
        """The used share of the quota; 0 before the first look."""
        return (self.used or 0) / self._quota

    @property
    def shortage(self) -> str:
        """The reason why writing should pause, or ""."""
        return f"{self}: STORE_MAX_SHARE is {self._most_share:.0%}" if self.share >= self._most_share else ""

    def __str__(self) -> str:
        return f"{self.share:.0%} of the {size(self._quota)} for {self._store.uri()} are used (STORE_QUOTA_BYTES)"
