"""Reads the metadata database for pages, in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from webcrawl.opened import OpenedCrawl
from webcrawl.stores.metadata import Metadata

T = TypeVar("T")


async def in_metadata(opened: OpenedCrawl, read: Callable[[Metadata], T]) -> T | None:
    """Returns the result of `read`; None if there is no database yet. Raises StoreError."""

    def work() -> T | None:
        metadata = opened.metadata_if_any()
        if metadata is None:
            return None
        with metadata:
            return read(metadata)

    return await asyncio.to_thread(work)
