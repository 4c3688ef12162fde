"""The outline of an HTML page: all that is read from the tree, which is neither kept nor sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from itertools import accumulate
from types import NoneType
from typing import Any, TypeAlias

import msgpack

from webcrawl.documents.document import Document
from webcrawl.documents.encodings import Encode
from webcrawl.documents.html.extraction import Extracted, extracted, is_extracted
from webcrawl.documents.html.facts import MAX_AUTHOR, MAX_DESCRIPTION, MAX_TITLE, MAX_URL, HTMLFacts, describe
from webcrawl.documents.html.link_rows import pack_rows, rows_of
from webcrawl.documents.html.link_texts import MAX_LINK_TEXT, link_texts, written_links
from webcrawl.documents.html.links import (
    MANY_LINKS,
    ManyLinks,
    PageAddresses,
    PageLinks,
    collect,
    frame_links,
)
from webcrawl.documents.html.script_redirects import script_redirects
from webcrawl.documents.html.structured_data import StructuredData, is_structured
from webcrawl.documents.html.text import TextShares
from webcrawl.documents.link_elements import Attributes, Element
from webcrawl.documents.mime.facts import MAX_TEXT, raise_error, trimmed
from webcrawl.documents.sandbox import give_back_memory

_MAX_VALUES = 500_000
OptionalText: TypeAlias = str | None

MAX_LINKS_LENGTH = 8_000_000
"""The total characters of the links of a page; further links are left out."""
_MANY_LINKS = 20_000
"""The tree of a page with more links takes 10 MB or more; this memory is given back before the links are joined."""
_STRINGS = {
    "title": MAX_TITLE,
    "description": MAX_DESCRIPTION,
    "language": 3,
    "canonical_url": MAX_URL,
    "author": MAX_AUTHOR,
    "image_url": MAX_URL,
    "main_text": MAX_TEXT,
    "markdown": MAX_TEXT,
    "page_markdown": MAX_TEXT,
}
_FACTS = (*_STRINGS, "published_at", "shares", "details")
assert {*_FACTS, "document"} == {column.name for column in fields(HTMLFacts)}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Outline:
    """What the spider and the first pipelines read from a page.

    metas    the attributes of each <meta content>, in document order
    links    the links of the page
    frames   the addresses of the frames of a frameset, see `frame_links`
    facts    the result of `describe`, on request
    text     the whole text, if facts were requested and there is no main part, or the page is large
    simhash  of the main part, or of the whole text; on request, and if there are enough words
    link_rows  the rows of its links, packed; on request
    extracted  the fields of EXTRACT, if any were requested
    structured  the structured data of the page, if facts were requested with it
    """

    metas: list[Attributes]
    links: PageLinks
    frames: list[str]
    facts: HTMLFacts | None = None
    text: str | None = None
    simhash: int | None = None
    link_rows: bytes | None = None
    extracted: Extracted | None = None
    structured: dict[str, Any] | None = None


def make_outline(
    document: Document,
    *,
    facts: bool,
    simhash: bool,
    texts: bool = False,
    text_links: bool = False,
    link_rows: bool = False,
    markdown: bool = False,
    page_markdown: bool = False,
    shares: bool = False,
    whole_text: bool = False,
    extract: str = "",
    structured: bool = False,
) -> Outline:
    """Returns the outline of an HTML document. HtmlPipeline needs `facts`, NearDuplicatesPipeline also `simhash`.

    `texts`, `text_links`: see `links_of`. `link_rows`: the rows of its links are included. `markdown`, `page_markdown`,
    `shares`: facts have them.
    `whole_text`: the text is included although there is a main part. `extract`: see `Extraction.wanted`.
    `structured`: the structured data are included, if the facts are.
    """
    links, rows = None, None
    if link_rows:
        links, rows = _links_with_rows(document, texts=texts, text_links=text_links)
        links = replace(links, addresses=(), joined={})
    metas, frames = document.metas, frame_links(document)
    if links is not None:
        # the elements of a large page need not be in memory while its text is made
        document.forget(only_elements=True)
    fields = extracted(document, extract) if extract else None
    data = StructuredData(document).as_dict() if structured and facts else None
    described, whole, number = None, None, None
    if facts:
        described = describe(
            document, with_markdown=markdown, with_page_markdown=page_markdown, with_shares=shares
        )
        text = described.main_text or described.text
        if simhash and text:
            from webcrawl.documents.simhash import simhash64  # NumPy is slow to import

            number = simhash64(text)
        whole = text if not described.main_text else described.text if whole_text else None
    if links is None:
        links = _last_links(document, texts=texts, text_links=text_links)
    return Outline(metas, links, frames, described, whole, number, rows, fields, data)


def link_rows_of(document: Document, *, text_links: bool) -> bytes:
    """Returns the `link_rows` of an HTML document alone."""
    return _links_with_rows(document, texts=False, text_links=text_links)[1]


def _links_with_rows(document: Document, *, texts: bool, text_links: bool) -> tuple[PageLinks, bytes]:
    nodes = document.search()
    links = links_of(document, texts=texts, text_links=text_links)
    return links, pack_rows(rows_of(document, nodes, links, text_links=text_links))


def links_of(document: Document, *, texts: bool, text_links: bool) -> PageLinks:
    """Returns the links of an HTML document, see `PageAddresses.joined`, up to MAX_LINKS_LENGTH.

    `texts`: the links have their texts. `text_links`: the addresses in the text are links too.
    """
    return _Collected.of(document, document.elements, texts=texts, text_links=text_links).joined()


def _last_links(document: Document, *, texts: bool, text_links: bool) -> PageLinks:
    """Returns the links of a document whose tree is not needed any more, and is freed before they are joined."""
    collected = _Collected.of(document, document.take_elements(), texts=texts, text_links=text_links)
    document.forget()
    if len(collected.addresses.addresses) > _MANY_LINKS:
        give_back_memory()
    return replace(collected.joined(), addresses=(), joined={})


@dataclass(frozen=True, slots=True)
class _Collected:
    """The addresses of a page, the links in its text and scripts, and the texts of its links, to make its links of."""

    url: str
    encode: Encode | None
    addresses: PageAddresses
    redirects: list[str]
    written: list[str]
    texts: dict[str, str]

    @classmethod
    def of(
        cls, document: Document, elements: Iterable[Element], *, texts: bool, text_links: bool
    ) -> _Collected:
        addresses = collect(elements)
        return cls(
            document.url,
            document.encode,
            addresses,
            script_redirects(document, addresses),
            written_links(document.html) if text_links else [],
            link_texts(document.html, addresses.joined_base(document.url, document.encode)) if texts else {},
        )

    def joined(self) -> PageLinks:
        links = self.addresses.joined(self.url, MAX_LINKS_LENGTH, self.encode)
        if not (self.written or self.redirects):
            return replace(links, texts=self.texts) if self.texts else links
        both = list(dict.fromkeys([*links.links, *self.redirects, *self.written]))
        lengths = accumulate(map(len, both))
        kept = [link for link, length in zip(both, lengths, strict=True) if length <= MAX_LINKS_LENGTH]
        return replace(links, links=kept, texts=self.texts, redirects=self.redirects)


def pack(outline: Outline) -> bytes:
    """Returns an outline as MessagePack."""
    links, facts = outline.links, outline.facts
    urls = links.links if len(links.links) <= MANY_LINKS else (ManyLinks.of(links.links).parts,)
    plain = (
        outline.metas,
        (urls, links.nofollow, links.canonical, links.base, links.malformed, dict(links.texts)),
        outline.frames,
        [getattr(facts, name) for name in _FACTS] if facts else None,
        outline.text,
        outline.simhash,
        outline.link_rows,
        outline.extracted,
        outline.structured,
    )
    try:
        return bytes(msgpack.packb(plain, datetime=True))
    except UnicodeEncodeError:  # lone surrogates, which no store takes either
        return bytes(msgpack.packb(plain, datetime=True, unicode_errors="replace"))


def unpack(data: bytes | bytearray, document: Document) -> Outline:
    """Reverses `pack`; raises UnreadableDocument with the message of `pack_error`.

    Raises ValueError for anything else, because the process that sent it may have been taken over.
    """
    try:
        plain = msgpack.unpackb(data, timestamp=3, max_array_len=_MAX_VALUES, max_map_len=_MAX_VALUES)
    except Exception as error:
        raise ValueError(f"not an outline: {error}") from error
    raise_error(plain)
    try:
        metas, links, frames, facts, text, simhash, rows, fields, structured = plain
        urls, nofollow, canonical, base, malformed, link_words = links
        described = None
        if facts:
            values = dict(zip(_FACTS, facts, strict=True))
            values["shares"] = TextShares(*values["shares"]) if values["shares"] else None
            described = HTMLFacts(**values | {"details": trimmed(values["details"])}, document=document)
        match urls:
            case [list(parts)]:
                urls = ManyLinks(parts)
        joined = PageLinks(urls, nofollow, canonical, base, malformed, texts=link_words)
        read = None if fields is None else Extracted(*fields)
        outline = Outline(metas, joined, frames, described, text, simhash, rows, read, structured)
    except Exception as error:
        raise ValueError(f"not an outline: {error}") from error
    if not _is_valid(outline):
        raise ValueError("not an outline")
    return outline


def _is_valid(outline: Outline) -> bool:
    links = outline.links
    return (
        isinstance(outline.metas, list)
        and all(map(_are_attributes, outline.metas))
        and (isinstance(links.links, ManyLinks) or _are_strings(links.links))
        and _are_strings(outline.frames)
        and type(links.nofollow) is type(links.malformed) is int
        and type(links.base) is str
        and isinstance(links.canonical, OptionalText)
        and isinstance(links.texts, dict)
        and all(isinstance(url, str) and _is_short(text) for url, text in links.texts.items())
        and isinstance(outline.text, OptionalText)
        and isinstance(outline.link_rows, bytes | None)
        and (outline.simhash is None or type(outline.simhash) is int and 0 <= outline.simhash < 2**64)
        and (outline.facts is None or _are_facts(outline.facts))
        and (outline.extracted is None or is_extracted(outline.extracted))
        and (outline.structured is None or is_structured(outline.structured))
    )


def _are_attributes(attributes: Any) -> bool:
    return (
        isinstance(attributes, dict)
        and set(map(type, attributes)) <= {str}
        and set(map(type, attributes.values())) <= {str, NoneType}
    )


def _is_short(text: Any) -> bool:
    return isinstance(text, str) and len(text) <= MAX_LINK_TEXT


def _are_strings(many: Any) -> bool:
    return isinstance(many, list) and set(map(type, many)) <= {str}


def _are_facts(facts: HTMLFacts) -> bool:
    return (
        isinstance(facts.published_at, datetime | None)
        and _are_shares(facts.shares)
        and all(
            isinstance(value := getattr(facts, name), OptionalText) and len(value or "") <= most
            for name, most in _STRINGS.items()
        )
    )


def _are_shares(shares: TextShares | None) -> bool:
    return shares is None or all(type(share) is float and 0 <= share <= 1 for share in shares)
