"""A stored page as the API shows it: its metadata, and its text, Markdown, source, links and WARC record."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from webcrawl.client.answers import ArchiveLocation, ChainLink, PageParts, PageRecord, PastFetch
from webcrawl.crawler.pages.stored_texts import StoredTexts, Text
from webcrawl.documents.document import Document
from webcrawl.documents.html import large_outline
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.html.outline import unpack
from webcrawl.errors import StoreError, StoreUnavailable, UnreadableDocument
from webcrawl.service.page_reader import StoredPage
from webcrawl.service.service import Service
from webcrawl.stores.archive import archive_to_read
from webcrawl.stores.locations import Row, own_location
from webcrawl.stores.redirect_chains import ChainRow, EarlierFetch

PartName: TypeAlias = Literal[
    "metadata", "text", "markdown", "page_text", "page_markdown", "html", "links", "record"
]
_TEXTS = Text._fields
_AT_ONCE = 4
_MOST_BYTES = 32 << 20
_MOST_OF_ANSWER = 64 << 20
_ONLY_LINKS = {"facts": False, "simhash": False}


def page_record(page: StoredPage) -> PageRecord:
    """Returns what is stored about the last page of a chain."""
    chain, row = page.chain, page.chain[-1]
    links = [ChainLink(each.url, each.status) for each in chain]
    if (
        row.status is not None
        and 300 <= row.status < 400
        and row.final_url not in {each.url for each in chain}
    ):
        links.append(ChainLink(row.final_url, None))
    details = row.details
    return PageRecord(
        url=chain[0].url,
        final_url=links[-1].url,
        chain=links,
        status=row.status,
        fetched_at=row.fetched_at,
        first_fetched_at=row.first_fetched_at,
        fetches=row.fetches,
        tried_at=row.tried_at,
        changed_at=row.changed_at,
        changes=row.changes,
        state=row.state,
        error=row.error,
        title=row.title,
        description=row.description,
        picture=row.image_url,
        canonical_url=row.canonical_url,
        author=row.author,
        published_at=row.published_at,
        modified=_modified(details),
        language=row.language,
        mime_type=row.mime_type,
        charset=row.charset,
        length=row.length,
        digest=row.digest,
        truncated=row.truncated,
        duplicate_of=row.duplicate_of,
        duplicate_kind=row.duplicate_kind,
        soft_404=None if row.soft_404 is None else bool(row.soft_404),
        etag=row.etag,
        last_modified=row.last_modified,
        importance=row.importance,
        depth=row.depth,
        crawl=row.crawl,
        archive=_location(row),
        # as it is stored: it need not be read to be sent
        details=None if details is None else msgspec.Raw(details.encode()),  # type: ignore[arg-type]
        history=None if page.earlier is None else [_past_fetch(fetch) for fetch in page.earlier],
    )


class _Dates(Struct):
    modified: Any = None


_dates = msgspec.json.Decoder(_Dates)


def _modified(details: str | None) -> str | None:
    if details is None or '"modified"' not in details:
        return None
    modified = _dates.decode(details).modified
    return modified if isinstance(modified, str) else None


def _past_fetch(fetch: EarlierFetch) -> PastFetch:
    return PastFetch(
        fetch.fetched_at,
        fetch.status,
        None if fetch.changed is None else bool(fetch.changed),
        fetch.digest,
        fetch.length,
        fetch.latency,
        fetch.error,
        _location(fetch),
    )


def _location(row: ChainRow | EarlierFetch) -> ArchiveLocation | None:
    if row.warc_file is None or row.warc_offset is None or row.warc_length is None:
        return None
    return ArchiveLocation(row.warc_file, row.warc_offset, row.warc_length)


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
