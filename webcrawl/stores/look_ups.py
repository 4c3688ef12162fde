"""Look-ups in the metadata by tasks of an event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from webcrawl.config import StoreConfig
from webcrawl.stores.group_commit import Batches

if TYPE_CHECKING:
    from webcrawl.stores.metadata import Metadata

T = TypeVar("T")


class LookUps:
    """Runs functions of the metadata in a thread, in which the first of them opens the database."""

    def __init__(self, stores: StoreConfig) -> None:
        self._stores = stores
        self._metadata: Metadata | None = None
        self._thread: Batches[str, None] = Batches(lambda urls: [None] * len(urls))

    async def run(self, look: Callable[[Metadata], T]) -> T:
        """Returns what `look` returns. Raises StoreError, StoreUnavailable when retrying may succeed."""
        return await self._thread.run(lambda: look(self._opened()))

    async def close(self) -> None:
        await self._thread.close(self._metadata.close if self._metadata is not None else None)

    def _opened(self) -> Metadata:
        if self._metadata is None:
            from webcrawl.stores.metadata import Metadata  # SQLAlchemy is slow to import

            self._metadata = Metadata(self._stores.metadata)
        return self._metadata
