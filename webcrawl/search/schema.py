"""The fields of the index.

A document is a page, or an image, audio or video file. Its field `page`, from which results are shown, is MessagePack
of an `IndexedPage` and the text.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from types import ModuleType
from typing import Any

from webcrawl.config.libraries import optional

VERSION = 3
"""The version of the index. An index of another version must be made again."""

WORDS = "words"
"""The name of the tokenizer of texts, which depends on the language; see `webcrawl.search.words`."""
TEXTS = ("text", "title", "anchors")
"""The fields that are searched for words."""
FORMS = "forms"
"""The field with the words of a page as they are written, in lower case: for prefixes and corrections."""
CALLED = "called"
"""The field with whole titles and texts of links, as stems in order: a query may be what a page is called."""
NAMES = ("url", "host", "language", "type", "crawl", "kind")
"""The fields compared as a whole. `host` also has the domains above a host, `type` also `image/*` for `image/png`."""

FACETS = {"host": "site", "language": "language", "type": "type"}
"""The field of which values are counted, by the name of the filter. `site` is the host with its port."""

PAGE, MEDIA = "page", ("image", "audio", "video")
"""The values of `kind`."""


@cache
def schema() -> Any:
    """Returns the schema. `key`: 64 bits of the hash of a URL. `state`: a hash of all facts of the page in the index.

    `first`: the key of the page of which this page is a copy, or its own key. `weight`: the factor of a score, in the
    form that tantivy reads. `date`: when the page was published, or else fetched.
    """
    builder = tantivy().SchemaBuilder()
    for name in TEXTS:
        builder.add_text_field(name, tokenizer_name=WORDS)
    for name in NAMES:
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic", fast=name in FACETS.values())
    builder.add_text_field("site", tokenizer_name="raw", index_option="basic", fast=True)
    builder.add_text_field(CALLED, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(FORMS, tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("key", indexed=True, fast=True)
    builder.add_unsigned_field("state", fast=True)
    builder.add_unsigned_field("first", indexed=True, fast=True)
    builder.add_unsigned_field("simhash", fast=True)
    builder.add_float_field("weight", fast=True)
    builder.add_date_field("fetched", indexed=True, fast=True)
    builder.add_date_field("date", fast=True)
    builder.add_bytes_field("page", stored=True)
    return builder.build()


def storable(moment: datetime) -> datetime:
    """Returns the time, or the nearest time that tantivy can store: from 1677 to 2262."""
    library = tantivy()
    nearest: datetime = min(max(moment, library.MIN_DATETIME), library.MAX_DATETIME)
    return nearest.astimezone(UTC)


def tantivy() -> ModuleType:
    """Returns tantivy; raises LibraryMissing."""
    return optional("the index", "tantivy", "search", "tantivy")
