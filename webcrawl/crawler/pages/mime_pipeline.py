"""The base of pipelines that read documents of certain MIME types: from a document's facts to its page."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self

from webcrawl.documents.mime.facts import Facts, pack, unpack
from webcrawl.documents.mime.reader import call
from webcrawl.errors import UnreadableDocument
from webcrawl.page import Page

if TYPE_CHECKING:
    # The process of a reader imports the module that it is in, which may be that of its pipeline.
    from scrapy.crawler import Crawler

    from webcrawl.crawler.pages.outlinks import Outlinks
    from webcrawl.documents.document import Document
    from webcrawl.documents.mime.reader_processes import Readers


class MimePipeline:
    """Give it the MIME types that it `takes` and the name of its `reader`; see docs/howto/add-a-mime-type-pipeline.md.

    The reader, "module:function", makes `Facts` of a `Document`. It runs in a process of its own; for documents of up
    to `inline_bytes` on the event loop, where it has to be quick and safe with any input. What it cannot read is an
    error on the page (`processing_error`), which goes on.

    Types that `webcrawl.documents.mime.sniff` does not recognize are recognized by `extensions` (".djvu") and by
    `signatures`, regular expressions for the first bytes; both name the type.

    A page is read by the first pipeline that takes it. What `was_read` of a copy is not read again. Of a page that says
    noindex nothing is kept but where it leads.
    """

    types: ClassVar[frozenset[str]] = frozenset()
    extensions: ClassVar[Mapping[str, str]] = {}
    signatures: ClassVar[Mapping[bytes, str]] = {}
    reader: str = ""
    inline_bytes: ClassVar[int] = 0

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
        """Whether this pipeline is for such a page."""
        return page.mime_type in self.types

    def was_read(self, page: Page) -> bool:
        """Whether an earlier page with the same bytes was read as this one would be."""
        return page.was_read

    def process_item(self, item: Any) -> Any | Awaitable[Any]:
        # a coroutine only where there is something to wait for: this is asked of every page
        if isinstance(item, Page) and self.takes(item):
            if item.unchanged is not None:
                return self._follow(item, item.unchanged)
            if _is_unread(item) and not self.was_read(item):
                return self._read(item)
        return item

    async def _follow(self, page: Page, document: Document) -> Page:
        """An unchanged page is not read again but for where it leads."""
        page.unchanged = None
        with suppress(UnreadableDocument):  # nor could it be read before
            await self._outlinks.found(page, (await self._facts(document)).links)
        return page

    async def _facts(self, document: Document) -> Facts:
        if len(document) <= self.inline_bytes:
            # there and back, for the same bounds
            return unpack(pack(call(self.reader, document)))
        return await self._readers.read(self.reader, document)

    async def _read(self, page: Page) -> Page:
        assert page.document is not None
        try:
            facts = await self._facts(page.document)
        except UnreadableDocument as error:
            page.processing_error = f"{page.mime_type} {error}"[:1000]
            return page
        if not page.noindex:
            fill(page, facts)
        await self._outlinks.found(page, facts.links)
        return page


def fill(page: Page, facts: Facts) -> None:
    """Put facts where a page has a place for them."""
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
