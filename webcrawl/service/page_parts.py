"""The parts of a stored page beside its metadata: text, Markdown, source, links and the WARC record."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias

from webcrawl.client.answers import PageParts
from webcrawl.crawler.pages.stored_texts import StoredTexts, Text
from webcrawl.documents.document import Document
from webcrawl.documents.html import large_outline
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.html.outline import unpack
from webcrawl.errors import StoreError, StoreUnavailable, UnreadableDocument
from webcrawl.service.service import Service
from webcrawl.stores.archive import archive_to_read
from webcrawl.stores.locations import Row, own_location

PartName: TypeAlias = Literal[
    "metadata", "text", "markdown", "page_text", "page_markdown", "html", "links", "record"
]
_TEXTS = Text._fields
_AT_ONCE = 4
_MOST_BYTES = 32 << 20
_MOST_OF_ANSWER = 64 << 20
_ONLY_LINKS = {"facts": False, "simhash": False}


class PartsRoom:
    """What the parts of an answer may still have, in characters."""

    def __init__(self) -> None:
        self._left = _MOST_OF_ANSWER

    def take(self, parts: PageParts) -> PageParts:
        """Returns the parts, or only a problem if the answer has no room for them."""
        texts = [getattr(parts, name) for name in _TEXTS]
        size = sum(map(len, (*texts, parts.html, parts.record, *parts.links)))
        if size > self._left:
            return PageParts(problem="the answer would be too long: ask for fewer pages or parts")
        self._left -= size
        return parts


class PartsReader:
    """Reads parts from the archive, a few pages at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._archive = archive_to_read(service.opened.stores)
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def parts(self, url: str, names: Sequence[str]) -> PageParts:
        """Returns the parts of the page at a stored URL."""
        parts = PageParts()
        async with self._slots:
            try:
                await self._read(url, frozenset(names), parts)
            except StoreUnavailable:
                raise
            except (StoreError, UnreadableDocument) as error:
                parts.problem = str(error)
        return parts

    async def _read(self, url: str, names: frozenset[str], parts: PageParts) -> None:
        opened = self._service.opened
        metadata = opened.metadata()
        with metadata:
            row = await asyncio.to_thread(metadata.get, url)
            if row is None:
                raise StoreError(f"{url} is not stored")
            if "record" in names:
                parts.record = await asyncio.to_thread(self._record, row)
            if not names & {*_TEXTS, "html", "links"}:
                return
            texts = StoredTexts(opened, self._service.settings, metadata)
            document = await asyncio.to_thread(texts.document, row)
        if document is None:
            raise StoreError(f"the body of {url} is not in the archive")
        if wanted := names & {*_TEXTS}:
            text = await texts.text(document, wanted)
            for name in wanted:
                setattr(parts, name, getattr(text, name))
        if "html" in names:
            parts.html = document.text
        if "links" in names:
            parts.links = await self._links(document)

    async def _links(self, document: Document) -> list[str]:
        if not is_html(document.mime_type):
            return []
        outline = await self._service.opened.readers.ask(
            large_outline.READER, document, partial(unpack, document=document), arguments=_ONLY_LINKS
        )
        return list(outline.links.links)

    def _record(self, row: Row) -> str:
        location = own_location(row)
        if location is None:
            raise StoreError(f"{row['url']} is not in the archive")
        if location.length > _MOST_BYTES:
            raise StoreError(f"the record of {row['url']} has {location.length:,} bytes, more than are sent")
        return base64.b64encode(b"".join(self._archive.chunks(location))).decode()
