"""The base of pipelines that read documents of certain MIME types and put the facts into the page."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self

from webcrawl.config.libraries import is_installed
from webcrawl.documents.mime.facts import Facts, Link, unpack
from webcrawl.documents.mime.reader import answer
from webcrawl.documents.page import Page
from webcrawl.errors import UnreadableDocument

if TYPE_CHECKING:
    # The reader process imports the module of the reader, often also that of the pipeline; Scrapy would slow this down.
    from scrapy.crawler import Crawler

    from webcrawl.crawler.pages.outlinks import Outlinks
    from webcrawl.documents.document import Document
    from webcrawl.documents.mime.reader_processes import Readers


class MimePipeline:
    """Subclasses set `types` and `reader`; see docs/howto/add-a-mime-type-pipeline.md.

    The reader, "module:function", makes `Facts` from a `Document`. It runs in another process. For documents of up to
    `inline_bytes` it runs on the event loop, where it must be quick and safe for any input. A document that cannot be
    read gets a `processing_error`, and its page continues.

    Types that `webcrawl.documents.mime.sniff` does not recognize are recognized by `extensions` (".djvu") and by
    `signatures`, regular expressions for the first bytes; both map to the type.

    The first pipeline that takes a page reads it. An exact copy of a page that was read is not read again. Only the
    links of a noindex page are kept.

    A document whose type is in `extras` is left unread, and counted, where the libraries of that extra are missing.
    """

    types: ClassVar[frozenset[str]] = frozenset()
    extensions: ClassVar[Mapping[str, str]] = {}
    signatures: ClassVar[Mapping[bytes, str]] = {}
    extras: ClassVar[Mapping[str, str]] = {}
    reader: str = ""
    inline_bytes: ClassVar[int] = 0
    link_element: ClassVar[str] = "document"
    """The element of these links in the link store: one of `webcrawl.documents.html.link_rows.ELEMENTS`."""

    def __init__(self, readers: Readers, outlinks: Outlinks) -> None:
        self._readers = readers
        self._outlinks = outlinks

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        from webcrawl.crawler.pages.outlinks import Outlinks
        from webcrawl.crawler.session import Session
        from webcrawl.documents.mime.sniff import add_types

        add_types(cls.types, cls.extensions, cls.signatures)
        session = Session.of(crawler)
        return cls(session.readers, Outlinks(crawler, session))

    def takes(self, page: Page) -> bool:
        """Returns whether this pipeline reads the page."""
        return page.mime_type in self.types

    def extra(self, page: Page) -> str | None:
        """Returns the extra of this distribution that brings the library to read the page; None without need."""
        return self.extras.get(page.mime_type or "")

    def was_read(self, page: Page) -> bool:
        """Returns whether an earlier page with the same bytes was read in the same way."""
        return page.reading.was_read

    def process_item(self, item: Any) -> Any | Awaitable[Any]:
        # called for every page, so it makes a coroutine only if there is something to await
        if isinstance(item, Page) and self.takes(item):
            if item.archived.unchanged is not None:
                return self._follow(item, item.archived.unchanged)
            if _is_unread(item) and not self.was_read(item):
                if (extra := self.extra(item)) is None or is_installed(extra):
                    return self._read(item)
                item.reading.missing_extra = extra
        return item

    async def _follow(self, page: Page, document: Document) -> Page:
        """Reads an unchanged page again only for its links."""
        page.archived.unchanged = None
        with suppress(UnreadableDocument):  # the first reading failed too
            await self._follow_links(page, (await self._facts(document)).links)
        return page

    async def _follow_links(self, page: Page, links: Sequence[Link]) -> None:
        if links:
            page.links.in_document = self.link_element, links
            await self._outlinks.follow_from_document(page, links)

    async def _facts(self, document: Document) -> Facts:
        if len(document) <= self.inline_bytes:
            # packed and unpacked, so that the same limits apply as in another process
            return unpack(answer(self.reader, document))
        return await self._readers.read(self.reader, document)

    async def _read(self, page: Page) -> Page:
        assert page.document is not None
        try:
            facts = await self._facts(page.document)
        except UnreadableDocument as error:
            page.processing_error = f"{page.mime_type} {error}"[:1000]
            return page
        if not page.reading.noindex:
            fill(page, facts)
        await self._follow_links(page, facts.links)
        return page


def fill(page: Page, facts: Facts) -> None:
    """Copies facts to the fields of a page."""
    page.title, page.description, page.language = facts.title, facts.description, facts.language
    page.author, page.published_at = facts.author, facts.published
    page.text = facts.text
    details = dict(facts.details)
    if facts.modified:
        details["modified"] = facts.modified.isoformat()
    page.details = details or None


def _is_unread(page: Page) -> bool:
    return (
        page.document is not None
        and page.details is None
        and page.processing_error is None
        and bool(page.length)
    )
