"""Reads what WAT files have of HTML pages, in reader processes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from webcrawl.documents.document import Document
from webcrawl.documents.html import wat_metadata
from webcrawl.documents.mime.reader_processes import Readers
from webcrawl.errors import UnreadableDocument

_READER = f"{wat_metadata.__name__}:read"


class WatPages:
    """Reads pages on the event loop `loop`, which must run in another thread.

    unread    the number of pages that could not be read
    problem   the first of them, and why
    """

    def __init__(self, readers: Readers, loop: asyncio.AbstractEventLoop) -> None:
        self._readers = readers
        self._loop = loop
        self.unread = 0
        self.problem = ""

    def read(self, documents: Sequence[Document]) -> list[dict[str, Any] | None]:
        """Returns the `HTML-Metadata` of documents; None for one that cannot be read."""
        return asyncio.run_coroutine_threadsafe(self._read_all(documents), self._loop).result()

    async def _read_all(self, documents: Sequence[Document]) -> list[dict[str, Any] | None]:
        return await asyncio.gather(*map(self._read, documents))

    async def _read(self, document: Document) -> dict[str, Any] | None:
        try:
            return await self._readers.ask(_READER, document, wat_metadata.unpack)
        except UnreadableDocument as error:
            self.unread += 1
            self.problem = self.problem or f"{document.url} {error}"
            return None
