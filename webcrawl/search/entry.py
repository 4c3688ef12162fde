"""A page in the index: facts from its row in table `pages`, the texts of links to the page, and its text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any
from urllib.parse import unquote, urlsplit

import msgpack
from xxhash import xxh3_64_intdigest

from webcrawl.documents.payload import PAYLOAD, STORED_LINKS, STORED_TEXT, unchanged_since
from webcrawl.documents.values import clean, plain
from webcrawl.search.schema import CALLED, FORMS, MEDIA, PAGE, storable, tantivy
from webcrawl.search.words import analyzer, called, composed, forms, searchable
from webcrawl.stores.locations import Row
from webcrawl.stores.warc.records import warc_date
from webcrawl.urls.canonical import authority, hostname, is_address

_WORDS_OF_NAMES = re.compile(r"[\W_]+")
_NAME_OF_SITE = re.compile(r"\s[-–—|·]\s")
_DEPTH_OF_DETAILS = 4

IMPORTANCE = 0.25
"""How much of its score a page gains by a doubling of its importance, which is counted from 1."""


@dataclass(frozen=True, slots=True)
class IndexedPage:
    """A page without its text. Times are ISO 8601 in UTC. `first`: the page of which this page is a copy, or itself.

    `language`: that of the page, or the most likely one. `details`: the facts of images, audio and video.
    `anchors`: the texts of links to the page, the most frequent first. `length`: the characters of the main part of
    HTML, which change if the page is read again with other rules.
    """

    url: str
    first: str
    title: str | None
    description: str | None
    author: str | None
    language: str | None
    mime_type: str | None
    crawl: str | None
    fetched_at: str
    published_at: str | None
    importance: float | None
    simhash: int | None
    details: Mapping[str, Any] | None
    anchors: Sequence[str]
    length: int | None = None

    @property
    def kind(self) -> str:
        """`image`, `audio`, `video`, or `page` for all other types."""
        kind = (self.mime_type or "").partition("/")[0]
        return kind if kind in MEDIA else PAGE

    @property
    def key(self) -> int:
        return key_of(self.url)

    @property
    def state(self) -> int:
        """The hash of what a document is made from.

        A small change of importance does not count, nor the crawl, which `webcrawl.search.state.PageCrawls` has.
        """
        importance = self.importance
        step = None
        if importance is not None and math.isfinite(importance):
            step = float(round(math.log2(1 + max(0.0, importance))))
        # `dataclasses.replace` took a fifth of the time of an update
        values = list(self.values())
        values[_IMPORTANCE], values[_CRAWL] = step, None
        return xxh3_64_intdigest(_packed(values))

    def packed(self) -> bytes:
        return _packed(self.values())

    def values(self) -> tuple[Any, ...]:
        """Returns the fields in order; `dataclasses.astuple` would copy them, in a third of the time of an update."""
        return _VALUES(self)


_VALUES: Callable[[IndexedPage], tuple[Any, ...]] = attrgetter(*IndexedPage.__slots__)
_IMPORTANCE, _CRAWL = map(IndexedPage.__slots__.index, ("importance", "crawl"))


def _packed(values: Sequence[Any]) -> bytes:
    data: bytes = msgpack.packb(values, unicode_errors="replace")
    return data


READ = ("title", "description", "author", "language", "published_at", "simhash", "details")
"""The columns of table `pages` that reading a body sets; those of its original count for an exact copy."""
COLUMNS = (
    "url",
    "duplicate_of",
    "duplicate_kind",
    "digest",
    "mime_type",
    "crawl",
    "fetched_at",
    "importance",
    *READ,
)
"""The columns that an entry is made from."""


def key_of(url: str) -> int:
    """Returns the key of a page in the index."""
    return xxh3_64_intdigest(url.encode("utf-8", "replace"))


def text_key(url: str, fetched_at: datetime) -> int:
    """Returns the hash of a fetch of a URL, which matches stored texts with pages."""
    return xxh3_64_intdigest(f"{warc_date(fetched_at)} {url}".encode("utf-8", "replace"))


def entry_of(row: Row, anchors: Sequence[str]) -> IndexedPage:
    """Returns the entry of a row of table `pages`."""
    is_media = (row["mime_type"] or "").partition("/")[0] in MEDIA
    published = row["published_at"]
    importance = row["importance"]
    return IndexedPage(
        url=row["url"],
        first=row["duplicate_of"] or row["url"],
        title=row["title"],
        description=row["description"],
        author=row["author"],
        language=row["language"] or _most_likely(row["details"]),
        mime_type=row["mime_type"],
        crawl=row["crawl"],
        fetched_at=unchanged_since(row).isoformat(),
        published_at=published and published.isoformat(),
        importance=None if importance is None else float(f"{importance:.3g}"),
        simhash=row["simhash"],
        details=plain(_facts(row["details"]), _DEPTH_OF_DETAILS) if is_media else None,
        anchors=tuple(anchors),
        length=_length(row["details"]),
    )


def _facts(details: object) -> object:
    """Returns the facts about the contents of a page, without where they are stored."""
    if not isinstance(details, Mapping):
        return details
    return {
        name: value for name, value in details.items() if name not in (PAYLOAD, STORED_LINKS, STORED_TEXT)
    } or None


def _most_likely(details: object) -> str | None:
    """Returns the language that was detected without confidence, whose stems fit better than none."""
    languages = details.get("languages") if isinstance(details, Mapping) else None
    likely = languages.get("detected") if isinstance(languages, Mapping) else None
    return likely if isinstance(likely, str) else None


def _length(details: object) -> int | None:
    length = details.get("text_length") if isinstance(details, Mapping) else None
    return length if isinstance(length, int) else None


def unpacked(packed: bytes) -> tuple[IndexedPage, str]:
    """Reads the `page` of a document: its entry and its text; raises ValueError if it is damaged."""
    try:
        fields, text = msgpack.unpackb(packed)
        return IndexedPage(*fields), str(text)
    except (TypeError, msgpack.UnpackException) as error:
        raise ValueError(f"a document is damaged: {error}") from error


def entry_from(packed: bytes) -> IndexedPage:
    """Reverses `IndexedPage.packed`."""
    return IndexedPage(*msgpack.unpackb(packed))


def document(entry: IndexedPage, text: str) -> Any:
    """Returns the document of a page."""
    stored, text = tantivy().Document(), composed(clean(text))
    written: set[str] = set()
    for field, texts in (
        ("text", _texts(entry, text)),
        ("title", [entry.title]),
        ("anchors", entry.anchors),
    ):
        for searched in filter(None, texts):
            words = searchable(composed(searched))
            stored.add_pre_tokenized_text(field, analyzer(entry.language, words).pre_tokenize(words))
            written.update(forms(words))
    # tantivy keeps no numbers of this field, so a word that comes again would be work for nothing
    for form in written:
        stored.add_text(FORMS, form)
    for name in {called(entry.language, searchable(composed(text))) for text in _titles(entry)}:
        stored.add_text(CALLED, name)
    for field, names in _names(entry).items():
        for name in names:
            stored.add_text(field, name)
    stored.add_unsigned("key", entry.key)
    stored.add_unsigned("first", key_of(entry.first))
    stored.add_unsigned("state", entry.state)
    if entry.simhash is not None:
        stored.add_unsigned("simhash", entry.simhash)
    stored.add_float("weight", weight(entry.importance))
    stored.add_date("fetched", storable(datetime.fromisoformat(entry.fetched_at)))
    stored.add_date("date", storable(_date(entry)))
    data = msgpack.packb((entry.values(), text), unicode_errors="replace")
    stored.add_bytes("page", data)
    return stored


def _date(entry: IndexedPage) -> datetime:
    """Returns when a page was published; when it was fetched, if that is not known, or not possible."""
    fetched = datetime.fromisoformat(entry.fetched_at)
    published = datetime.fromisoformat(entry.published_at) if entry.published_at else fetched
    return min(published.replace(tzinfo=published.tzinfo or UTC), fetched)


def weight(importance: float | None) -> float:
    """Returns the weight of a page: tantivy multiplies its score by log2(2 + weight), which is then
    1 + IMPORTANCE * log2(1 + importance).

    For a page of average importance, the score is multiplied by 1.25; for 100 times the average, by 2.7.
    """
    mean = 1.0 if importance is None else max(0.0, importance)
    return float(2 ** (1 + IMPORTANCE * math.log2(1 + mean)) - 2)


def _texts(entry: IndexedPage, text: str) -> Iterator[str | None]:
    yield text
    yield entry.description
    yield entry.author
    if entry.kind != PAGE:
        yield _WORDS_OF_NAMES.sub(" ", unquote(urlsplit(entry.url).path.rpartition("/")[2]))
        yield from _words_in(entry.details)


def _titles(entry: IndexedPage) -> Iterator[str]:
    """Yields what a page is called: its title, also without the name of the site, and the texts of links."""
    yield from entry.anchors
    if entry.title:
        yield entry.title
        yield _NAME_OF_SITE.split(entry.title, maxsplit=1)[0]


def _words_in(details: Any) -> Iterator[str]:
    """Yields the texts in the facts of an image, audio or video file: names of cameras, albums, codecs."""
    if isinstance(details, str):
        yield details
    elif isinstance(details, Mapping):
        for value in details.values():
            yield from _words_in(value)
    elif isinstance(details, list | tuple):
        for value in details:
            yield from _words_in(value)


def _names(entry: IndexedPage) -> dict[str, list[str]]:
    """Returns the fields that are compared as a whole."""
    family = [f"{entry.mime_type.partition('/')[0]}/*"] if entry.mime_type else []
    return {
        "url": [entry.url],
        "host": hosts_of(entry.url),
        "site": [authority(entry.url)],
        "language": [entry.language or ""],
        "type": [*filter(None, [entry.mime_type]), *family],
        "crawl": [*filter(None, [entry.crawl])],
        "kind": [entry.kind],
    }


def hosts_of(url: str) -> list[str]:
    """Returns the names that match a host in a search: with its port, its name, and the domains above it."""
    full, name = authority(url), hostname(url)
    labels = [] if is_address(name) else name.split(".")
    above = [".".join(labels[level:]) for level in range(1, len(labels))]
    return list(dict.fromkeys([full, name, *above]))
