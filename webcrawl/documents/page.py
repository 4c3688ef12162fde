"""The item that passes through the pipelines, and its row in the table `pages`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple, Self

from webcrawl.documents.document import Document
from webcrawl.documents.exchange import Exchange
from webcrawl.documents.html.extraction import Extracted
from webcrawl.documents.html.outline import Outline
from webcrawl.documents.html.text import TextShares, lines_of
from webcrawl.documents.mime.facts import Link
from webcrawl.documents.payload import PAYLOAD, STORED_LINKS, STORED_TEXT, StoredPayload, StoredRows
from webcrawl.documents.values import plain

# How feed exports of Scrapy write a field: times in ISO 8601, structures as JSON.
_TIME = {"serializer": plain}
_STRUCTURE = {"serializer": plain, "structure": True}


# Not written as `__slots__ = (...)`: mypy then assumes that a derived dataclass has no other slots.
_UNSTORED = (
    "archived",
    "caching",
    "extraction_problem",
    "fed_text",
    "fetch_class",
    "links",
    "queued_at",
    "reading",
    "recrawl_request",
    "text_digest",
)

NOT_REPEATABLE = b""
"""The `recrawl_request` of a page whose request only its process can make."""


@dataclass(slots=True)
class PendingLinks:
    """Joins the spider, which may want the links in a document, and the pipeline, which finds them, in any order.

    hops     how many links in a row led to the page outside the scope
    wanted   whether the spider wants the links
    links    the links that the pipeline found first
    """

    hops: int = 0
    wanted: bool = False
    links: list[Link] = field(default_factory=list)


WANTS_COOKIES = "wants_cookies"
"""The remark about a redirect that leads back to the page that led to it, until it gets its cookie back."""
REDIRECTS_TO_ITSELF = "redirects_to_itself"
"""The remark about a redirect to its own URL that is not asked again."""

HEAD_ONLY = "head_only"
METADATA_ONLY = "metadata_only"
"""Remarks on pages that DEPTH_OF_COPY does not copy in full."""
AI_OPT_OUT = "ai_opt_out"
"""The remark about a page whose text is left out, because the site says no to its use by artificial intelligence."""


class ArchivedResponse:
    """What the archive keeps of a page, and what it already has.

    exchange              the request and response, for the archive
    record_id             the WARC-Record-ID of the archived response; None for a 304 or a copy of another page
    payload               where an earlier fetch archived the same payload; None to archive it now
    stored_text           the text of this payload in the table of texts; None until it is known to be there
    stored_links          the links of this payload in the link store; None until they are known to be there
    noarchive             keep the page out of the archive: a directive says so, or it is a near-duplicate to drop
    is_first              the page represents its exact copies once it is stored
    duplicate_fetched_at  when `duplicate_of` was fetched, for a revisit record; None until that page is stored
    unchanged             the stored document that a 304 confirms, if it may have links; only its links are needed
    remarks               flags of the response that the row repeats, such as "wants_cookies"
    read_at               when `scrapy reparse` reads the archived response
    """

    __slots__ = (
        "duplicate_fetched_at",
        "exchange",
        "is_first",
        "noarchive",
        "payload",
        "read_at",
        "record_id",
        "remarks",
        "stored_links",
        "stored_text",
        "unchanged",
    )

    def __init__(self) -> None:
        self.exchange: Exchange | None = None
        self.record_id: str | None = None
        self.payload: StoredPayload | None = None
        self.stored_text: StoredRows | None = None
        self.stored_links: StoredRows | None = None
        self.noarchive = False
        self.is_first = False
        self.duplicate_fetched_at: datetime | None = None
        self.unchanged: Document | None = None
        self.read_at: datetime | None = None
        self.remarks: tuple[str, ...] = ()


class PageReading:
    """What is read of a page: its document and the text in it.

    document          the body
    outline           the result of the process that parses HTML
    frames            the documents whose text belongs to the page
    is_frame          the page is among the `frames` of another page
    is_sitemap        robots.txt, an index or a seed names the page as a sitemap
    missing_extra     the document was not read, or its language not detected, without the library of this extra
    noindex           a robots directive, or an opt-out with AI_OPT_OUTS, forbids to keep the text
    was_read          an earlier page with the same bytes was read in the same way; skip this page
    content_language  of the header, if it names one language
    text              the visible text
    main_text         the main part of `text`, with its white space
    markdown          of the main part of an HTML page, or of the whole page without one; if it is wanted
    page_markdown     of the whole HTML page; if it is wanted
    shares            how much of its text is in links and in code; if they are wanted
    language_score    the share of the text in the language of the page; None if another was detected, or none
    text_hash         the SimHash of `main_text` or `text`, if it is known; setting either text resets it
    extracted         the fields of EXTRACT, if a rule is for the page and the page was read
    """

    __slots__ = (
        "_main_text",
        "_readable",
        "_text",
        "content_language",
        "document",
        "extracted",
        "frames",
        "is_frame",
        "is_sitemap",
        "language_score",
        "markdown",
        "missing_extra",
        "noindex",
        "outline",
        "page_markdown",
        "shares",
        "text_hash",
        "was_read",
    )

    def __init__(self) -> None:
        self.document: Document | None = None
        self.outline: Outline | None = None
        self.frames: tuple[Document, ...] = ()
        self.is_frame = False
        self.is_sitemap = False
        self.missing_extra: str | None = None
        self.noindex = False
        self.was_read = False
        self.content_language: str | None = None
        self.markdown: str | None = None
        self.page_markdown: str | None = None
        self.shares: TextShares | None = None
        self.language_score: float | None = None
        self.text_hash: int | None = None
        self.extracted: Extracted | None = None
        self._text: str | Callable[[], str] | None = None
        self._main_text: str | None = None
        self._readable: dict[str, str] = {}

    @property
    def text(self) -> str | None:
        """The visible text; if set to a function, it is called once, when the text is first read."""
        if callable(self._text):
            self._text = self._text()
        return self._text

    @text.setter
    def text(self, text: str | Callable[[], str] | None) -> None:
        self._text = text
        self._readable, self.text_hash = {}, None

    @property
    def main_text(self) -> str | None:
        """The main part of `text`."""
        return self._main_text

    @main_text.setter
    def main_text(self, text: str | None) -> None:
        self._main_text = text
        self._readable, self.text_hash = {}, None

    def text_of(self, part: str) -> str:
        """Returns the text of a part, before it has lines, or "".

        "page" is the whole text, "main" the main part, or the whole text without one.
        """
        if part == "main":
            return self.main_text or self.text or ""
        return self.text or self.main_text or ""

    def readable(self, part: str) -> str:
        """Returns the text of a part with a line for each block."""
        if part not in self._readable:
            self._readable[part] = "\n".join(lines_of(self.text_of(part)))
        return self._readable[part]

    def markdown_of(self, part: str) -> str | None:
        """Returns the Markdown of a part, if it was wanted."""
        return self.markdown if part == "main" else self.page_markdown


class PageOutlinks:
    """The links of a page.

    rows         the rows of its links for the link store, packed; in the order of the page
    in_document  the links that a pipeline found in the document, after their `element` in the link store
    pending      takes the links that a pipeline finds in the document
    nofollow     a robots directive forbids to follow the links
    """

    __slots__ = ("in_document", "nofollow", "pending", "rows")

    def __init__(self) -> None:
        self.rows: tuple[bytes, ...] = ()
        self.in_document: tuple[str, Sequence[Link]] | None = None
        self.pending: PendingLinks | None = None
        self.nofollow = False


class FedText(NamedTuple):
    """The text of a page in feeds of the format `pages`, and its Markdown, which only HTML has.

    The last two are those of the whole page, if `text` is that of the main part and both are wanted.
    """

    text: str | None = None
    markdown: str | None = None
    page_text: str | None = None
    page_markdown: str | None = None

    @classmethod
    def of(cls, reading: PageReading, parts: Sequence[str]) -> Self:
        """Returns the texts of the wanted parts, one or two."""
        texts = [text for part in parts for text in (reading.readable(part), reading.markdown_of(part))]
        return cls(*texts)

    def columns(self) -> dict[str, str | None]:
        """Returns the texts by name, those of the whole page only if there are any."""
        return {name: text for name, text in self._asdict().items() if text is not None or name in _FED}


_FED = ("text", "markdown")


class _UnstoredFields:
    """The fields of a page that pipelines share and no store keeps.

    They are in a plain base class, so they are not dataclass fields: feed exports, `dataclasses.asdict` and comparisons
    ignore them.
    """

    __slots__ = _UNSTORED

    archived: ArchivedResponse
    reading: PageReading
    links: PageOutlinks
    queued_at: datetime | None
    extraction_problem: str
    fed_text: FedText | None
    recrawl_request: bytes | None
    text_digest: int | None
    fetch_class: str | None
    caching: tuple[str | None, str | None, str | None]

    @property
    def document(self) -> Document | None:
        """The body: `reading.document`."""
        return self.reading.document

    @document.setter
    def document(self, document: Document | None) -> None:
        self.reading.document = document

    @property
    def text(self) -> str | None:
        """The visible text: `reading.text`."""
        return self.reading.text

    @text.setter
    def text(self, text: str | Callable[[], str] | None) -> None:
        self.reading.text = text

    @property
    def main_text(self) -> str | None:
        """The main part of `text`: `reading.main_text`."""
        return self.reading.main_text

    @main_text.setter
    def main_text(self, text: str | None) -> None:
        self.reading.main_text = text

    @property
    def may_be_archived(self) -> bool:
        """Whether neither a directive nor DEPTH_OF_COPY keeps the page out of the archive."""
        archived = self.archived
        return not (archived.noarchive or self.reading.noindex or METADATA_ONLY in archived.remarks)

    def release(self) -> None:
        """Replaces the three records by empty ones, to free the body once the page is stored.

        `queued_at` stays, because pages that are stuck are recorded after their rows are stored, `fed_text` because
        feeds come last, and the remarks because listeners get rows like the stored ones.
        """
        remarks = self.archived.remarks
        self.archived, self.reading, self.links = ArchivedResponse(), PageReading(), PageOutlinks()
        self.archived.remarks = remarks


@dataclass(slots=True, kw_only=True)
class Page(_UnstoredFields):
    """One fetch of one URL: the fields of its row, and what pipelines share and no store keeps.

    Not in the row:
      archived    what the archive keeps of the page: `ArchivedResponse`
      reading     what is read of it: `PageReading`; `document`, `text` and `main_text` are short names
      links       its links: `PageOutlinks`
      queued_at   when the URL was first queued in its crawl; of all pages in the crawl of a job's iteration
      fed_text    the text for feeds, if TEXT has `feed`
      extraction_problem  the fields of EXTRACT that it should have and has not, or ""
      recrawl_request   its request, as the frontier stores it; None for a plain GET
      fetch_class       what its fetch is for (webcrawl.policies.traffic)
      text_digest       the XXH3 of its main text, with RECRAWL
      caching           its headers `Cache-Control`, `Expires` and `Date`

    In the row:

    url, final_url     the requested URL, and the one after redirects
    status             None if there was no HTTP response
    error              why there was no response, or why the body is incomplete
    length             the bytes of the decoded body
    digest             "sha1:" and the Base32 SHA-1 of the payload as received, as in a WARC
    simhash            unsigned 64-bit
    duplicate_of       the URL of an earlier page with the same payload (`duplicate_kind` "exact") or nearly the same
                       text ("near")
    language           the primary subtag of a BCP 47 tag; `language_source` is "declared" or "detected"
    warc_offset, warc_length   the gzip member of the response in `warc_file`
    attempts           the number of attempts of this fetch
    latency            seconds to the first byte of the response
    redirects          the URLs that led here, in order
    truncated          why the body is incomplete: as in `Exchange`, also "length" if decoding exceeded the limit, and
                       "coding" if the content coding is truncated
    processing_error   why the body could not be read
    details            further facts: lists, dicts and plain values; the row adds `archived.remarks`
    importance         what links to the page are worth when it is fetched, as a multiple of the mean; the row gets the
                       value at the end of the crawl
    soft_404           the page is an error page although its status is 200, or a redirect of an unknown path
    extracted          its fields by the rules of EXTRACT; None without a rule for the page
    structured_data    JSON-LD, microdata, RDFa and Open Graph, see `StructuredData`, with STRUCTURED_DATA
    """

    url: str
    host: str
    fetched_at: datetime = field(metadata=_TIME)
    final_url: str = ""
    status: int | None = None
    depth: int = 0
    referrer: str | None = None
    mime_type: str | None = None
    charset: str | None = None
    length: int | None = None
    digest: str | None = None
    simhash: int | None = None
    duplicate_of: str | None = None
    duplicate_kind: str | None = None
    title: str | None = None
    description: str | None = None
    language: str | None = None
    canonical_url: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    error: str | None = None
    warc_file: str | None = None
    warc_offset: int | None = None
    warc_length: int | None = None
    attempts: int = 1
    latency: float | None = None
    redirects: list[str] | None = field(default=None, metadata=_STRUCTURE)
    truncated: str | None = None
    author: str | None = None
    published_at: datetime | None = field(default=None, metadata=_TIME)
    image_url: str | None = None
    processing_error: str | None = None
    details: dict[str, Any] | None = field(default=None, metadata=_STRUCTURE)
    language_source: str | None = None
    importance: float | None = None
    soft_404: bool = False
    extracted: dict[str, Any] | None = field(default=None, metadata=_STRUCTURE)
    structured_data: dict[str, Any] | None = field(default=None, metadata=_STRUCTURE)

    def __post_init__(self) -> None:
        self.final_url = self.final_url or self.url
        self.queued_at = None
        self.extraction_problem = ""
        self.fed_text = self.recrawl_request = self.text_digest = self.fetch_class = None
        self.caching = None, None, None
        self.archived = ArchivedResponse()
        self.release()

    @property
    def read_as(self) -> str:
        """How the body is read: its type, after a "-" if its links are not followed. "!" if it could not be read.

        Empty for HTML, the type of most pages, because its links are found elsewhere.
        """
        if self.processing_error is not None:
            return "!"
        if self.mime_type == "text/html":
            return ""
        return f"{'-' if self.links.nofollow else ''}{self.mime_type}"

    def row(self) -> dict[str, Any]:
        """Returns the row by column name (`ROW_FIELDS`)."""
        row = dict(zip(ROW_FIELDS, _row_values(self), strict=True))
        if self.archived.remarks:
            row["details"] = {**(self.details or {}), "remarks": list(self.archived.remarks)}
        if self.archived.payload is not None:
            row["details"] = {**(row["details"] or {}), PAYLOAD: self.archived.payload.facts()}
        stored = {STORED_TEXT: self.archived.stored_text, STORED_LINKS: self.archived.stored_links}
        for name, rows in stored.items():
            if rows is not None:
                row["details"] = {**(row["details"] or {}), name: rows.facts()}
        return row


ROW_FIELDS: tuple[str, ...] = tuple(column.name for column in fields(Page))
_row_values = attrgetter(*ROW_FIELDS)
