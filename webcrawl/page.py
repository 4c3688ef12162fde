"""The item that flows through the pipelines, and the row that is stored of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import datetime
from operator import attrgetter
from typing import Any

from webcrawl.documents.document import Document
from webcrawl.documents.exchange import Exchange
from webcrawl.documents.html.outline import Outline
from webcrawl.documents.mime.facts import Link
from webcrawl.documents.values import plain

# By name: mypy, where it sees the slots of a base, takes a dataclass to have none but its own.
_CARRIED = (
    "_main_text",
    "_text",
    "content_language",
    "document",
    "duplicate_fetched_at",
    "exchange",
    "frames",
    "is_first",
    "is_frame",
    "is_sitemap",
    "meeting",
    "noarchive",
    "nofollow",
    "noindex",
    "outline",
    "text_hash",
    "unchanged",
    "was_read",
)

# How Scrapy's feed exports write a field: times in ISO 8601, structures as JSON knows them.
_TIME = {"serializer": plain}
_STRUCTURE = {"serializer": plain, "structure": True}


@dataclass(slots=True)
class Meeting:
    """Where the spider, which may want the links in a document, and the pipeline that finds them leave word."""

    wanted: bool = False
    found: list[Link] = field(default_factory=list)


class Carried:
    """What a page carries through the pipelines and nobody stores.

    They live in a plain base class so that they are no dataclass fields: feed exports, `dataclasses.asdict` and
    comparisons see only what is stored. Set them after construction; an empty value means "not known".
    `content_language` is the header's, where it names one language. `duplicate_fetched_at` is when `duplicate_of` was
    fetched, for a revisit record; None while that may be lost yet. `is_first`: once stored, the page stands for its
    exact copies. `noarchive` keeps a page out of the archive: it says so itself, or it is a near-duplicate to be
    dropped. `main_text` is the part of `text` that the page is about, where one stands out, white space as it comes;
    `text_hash` the SimHash of that, or of `text`, where it is known already and neither was changed. `outline` is
    what another process made of the document. `frames` are the documents whose text belongs to the page, which are
    pages too: `is_frame`. `is_sitemap`: it was named as one. `meeting` is where links found in the document are
    handed over; `nofollow`: nobody will want them. `was_read`: an earlier page with the same bytes was read in the
    same way, so that this one need not be. `unchanged` is the stored document of which an answer says that it still
    holds, where that may lead to other pages: nothing else of it is wanted.
    """

    __slots__ = _CARRIED

    content_language: str | None
    document: Document | None
    duplicate_fetched_at: datetime | None
    exchange: Exchange | None
    frames: tuple[Document, ...]
    is_first: bool
    is_frame: bool
    is_sitemap: bool
    meeting: Meeting | None
    noindex: bool
    noarchive: bool
    nofollow: bool
    outline: Outline | None
    text_hash: int | None
    was_read: bool
    unchanged: Document | None
    _main_text: str | None
    _text: str | Callable[[], str] | None

    @property
    def text(self) -> str | None:
        """All text of the page. It may be set to a function that makes it, which is called when somebody asks."""
        if callable(self._text):
            self._text = self._text()
        return self._text

    @text.setter
    def text(self, text: str | Callable[[], str] | None) -> None:
        self._text = text
        self.text_hash = None

    @property
    def main_text(self) -> str | None:
        """The part of `text` that the page is about."""
        return self._main_text

    @main_text.setter
    def main_text(self, text: str | None) -> None:
        self._main_text = text
        self.text_hash = None

    def release(self) -> None:
        """Let go of what is carried: how a page begins, and how it is freed from its body once stored."""
        self.content_language = None
        self.document = None
        self.duplicate_fetched_at = None
        self.exchange = None
        self.frames = ()
        self.is_first = False
        self.is_frame = False
        self.is_sitemap = False
        self.main_text = None
        self.meeting = None
        self.text = None
        self.noindex = False
        self.noarchive = False
        self.nofollow = False
        self.outline = None
        self.text_hash = None
        self.was_read = False
        self.unchanged = None


@dataclass(slots=True, kw_only=True)
class Page(Carried):
    """One fetch of one URL: what is stored of it as a row, and what it carries (see `Carried`).

    `url` is what was asked for, `final_url` where redirects led. `status` is None when there was no HTTP
    answer; `error` says why, or that the body is not whole. `length` counts the bytes of the decoded body.
    `digest` is "sha1:" and the Base32 SHA-1 of the payload as received, as in a WARC. `simhash` is unsigned
    64-bit. `duplicate_of` is the URL of an earlier page with the same payload (`duplicate_kind` "exact") or
    nearly the same text ("near"). `language` is the primary subtag of a BCP 47 tag, `language_source` says whether it
    was "declared" or "detected" in the text. `warc_offset` and `warc_length` place the response's gzip member in
    `warc_file`. `attempts` counts the tries that this fetch took. `latency` is in seconds, to the first byte of
    the answer. `redirects` are the URLs that led here, the first one first. `truncated` says why the body is not
    whole: as in an Exchange, "length" too where it was cut off while it was decoded, or "coding" where its
    content-encoding breaks off. `processing_error` is what a processor of the body ran into. `details` holds what it
    found beyond the other fields: lists, dicts and plain values.
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

    def __post_init__(self) -> None:
        self.final_url = self.final_url or self.url
        self.release()

    @property
    def reading(self) -> str:
        """How the body is read, without spaces: its type, behind a "-" where links in it are not followed.

        Empty for HTML, which most pages are; its links are found by other means.
        """
        if self.mime_type == "text/html":
            return ""
        return f"{'-' if self.nofollow else ''}{self.mime_type}"

    def row(self) -> dict[str, Any]:
        """What is stored, by column name (`ROW_FIELDS`)."""
        return dict(zip(ROW_FIELDS, _row_values(self), strict=True))


ROW_FIELDS: tuple[str, ...] = tuple(one.name for one in fields(Page))
_row_values = attrgetter(*ROW_FIELDS)
