"""Reads the text of stored pages from the archive."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.utils.misc import load_object

from webcrawl.crawler.pages.mime_pipeline import MimePipeline
from webcrawl.documents.document import Document
from webcrawl.documents.html import large_outline
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.html.outline import unpack
from webcrawl.documents.html.text import lines_of
from webcrawl.documents.page import PageReading
from webcrawl.errors import StoreError, StoreUnavailable, UnreadableDocument
from webcrawl.stores.archive import archive_to_read
from webcrawl.stores.bodies import Bodies
from webcrawl.stores.group_commit import batched
from webcrawl.stores.locations import Row, location_of_body

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.opened import OpenedCrawl
    from webcrawl.stores.metadata import Metadata


# Pages that are read at a time.
_BATCH = 16


class Text(NamedTuple):
    """The text of a page, and the same as Markdown.

    text       of the part that TEXT_PART names: the main part, or the whole page if that is wanted or has no main part
    page_text  of the whole page

    All are empty for pages without text; Markdown is also empty for pages that are not HTML.
    """

    text: str = ""
    markdown: str = ""
    page_text: str = ""
    page_markdown: str = ""


class StoredTexts:
    """Reads the text of stored pages as a crawl with these settings does, in reader processes."""

    def __init__(self, opened: OpenedCrawl, settings: BaseSettings, metadata: Metadata) -> None:
        self._opened = opened
        self._metadata = metadata
        self._bodies = Bodies(archive_to_read(opened.stores), opened.fetch)
        self._settings = settings
        self._part = opened.stores.text_parts[0]

    @cached_property
    def _readers(self) -> dict[str, list[str]]:
        # an update of the index that reads no archived page needs no pipeline, and these import the crawler
        return _readers(self._settings)

    def names(self, wanted: Iterable[str]) -> list[str]:
        """Returns the fields of `Text` for the wanted "text" and "markdown": two of each with `TEXT_PART = "both"`."""
        prefixes = ("", "page_")[: len(self._opened.stores.text_parts)]
        return [f"{prefix}{name}" for name in wanted for prefix in prefixes]

    def document(self, row: Row) -> Document | None:
        """Returns the document of a page, for a copy that of the first page; None if it is not archived.

        May take long. Raises StoreError for a record that is missing or damaged.
        """
        location = location_of_body(row, self._metadata, self._bodies)
        if location is None:
            return None
        return Document(self._bodies.read(location)[1], row["mime_type"] or "", row["charset"], row["url"])

    async def text(self, document: Document, names: Collection[str] = ("text",)) -> Text:
        """Returns the texts of a document: at least those of `names`, fields of `Text`; raises UnreadableDocument."""
        if not len(document):
            return Text()
        if is_html(document.mime_type):
            return await self._text_of_html(document, names)
        problem: UnreadableDocument | None = None
        for reader in self._readers.get(document.mime_type, ()):
            try:
                facts = await self._opened.readers.read(reader, document)
            except UnreadableDocument as error:
                problem = error
                continue
            if facts.text:
                text = "\n".join(lines_of(facts.text))
                return Text(text, page_text=text)
            problem = None
        if problem is not None:
            raise problem
        return Text()

    async def _text_of_html(self, document: Document, names: Collection[str]) -> Text:
        markdown, page_markdown = "markdown" in names, "page_markdown" in names
        if self._part == "page":
            markdown, page_markdown = False, markdown or page_markdown
        outline = await self._opened.readers.ask(
            large_outline.READER,
            document,
            partial(unpack, document=document),
            arguments={
                "facts": True,
                "simhash": False,
                "markdown": markdown,
                "page_markdown": page_markdown,
            },
        )
        if (facts := outline.facts) is None:
            raise UnreadableDocument("has no facts")
        reading = PageReading()
        reading.text, reading.main_text = outline.text, facts.main_text
        reading.markdown, reading.page_markdown = facts.markdown, facts.page_markdown
        page_text = reading.readable("page") if "page_text" in names else ""
        return Text(
            reading.readable(self._part),
            reading.markdown_of(self._part) or "",
            page_text,
            facts.page_markdown or "",
        )


class TextColumns:
    """Adds the text of pages to their rows.

    unread    the number of archived pages that could not be read
    problem   the first of these pages, and why it could not be read
    """

    def __init__(self, texts: StoredTexts, names: Sequence[str]) -> None:
        """`names`: fields of `Text`."""
        self._texts = texts
        self._names = names
        self.unread = 0
        self.problem = ""

    def documents(self, rows: Iterable[Row]) -> list[Document | None]:
        """Returns the documents of pages; None for a page without a document in the archive. May take long."""
        return [self._document(row) for row in rows]

    async def added(self, rows: Sequence[Row], documents: Sequence[Document | None]) -> list[dict[str, Any]]:
        """Returns the rows with the columns; None for a page without text, or whose record cannot be read."""
        texts = await asyncio.gather(*map(self._text, documents))
        return [
            {**row, **{name: getattr(text, name) or None for name in self._names}}
            for row, text in zip(rows, texts, strict=True)
        ]

    def added_to_all(self, rows: Iterable[Row], loop: asyncio.AbstractEventLoop) -> Iterator[dict[str, Any]]:
        """Yields rows with the columns. Documents are read on `loop`, which must run in another thread."""
        for batch in batched(rows, _BATCH):
            reading = self.added(batch, self.documents(batch))
            yield from asyncio.run_coroutine_threadsafe(reading, loop).result()

    def _document(self, row: Row) -> Document | None:
        try:
            return self._texts.document(row)
        except StoreUnavailable:
            raise
        except StoreError as error:
            self._note(f"{row['url']}: {error}")
            return None

    async def _text(self, document: Document | None) -> Text:
        if document is None:
            return Text()
        try:
            return await self._texts.text(document, self._names)
        except UnreadableDocument as error:
            self._note(f"{document.url} {error}")
            return Text()

    def _note(self, problem: str) -> None:
        self.unread += 1
        self.problem = self.problem or problem


def _readers(settings: BaseSettings) -> dict[str, list[str]]:
    """Returns the readers of the pipelines of MIME types, by type, in their order.

    A type may have several readers: plain text, for example, may be a sitemap.
    """
    readers: dict[str, list[str]] = {}
    enabled = settings.get_component_priority_dict_with_base("ITEM_PIPELINES")
    for path, order in sorted(enabled.items(), key=lambda entry: entry[1] or 0):
        pipeline = load_object(path) if order is not None else None
        if isinstance(pipeline, type) and issubclass(pipeline, MimePipeline):
            for kind in pipeline.types:
                readers.setdefault(kind, []).append(pipeline.reader)
    return readers
