"""Writes the pages of an index as documents for another search engine: OpenSearch or Quickwit.

    documents-00000.ndjson ...   bodies of the engine's bulk interface, each at most about BODY_BYTES
    index.json                   the index to create: its fields and their types; written last

OpenSearch: https://docs.opensearch.org/latest/api-reference/document-apis/bulk/: a line names the document, the next
one is the document. Quickwit: https://quickwit.io/docs/reference/rest-api, "Ingest data into an index": a document a
line.
"""

from __future__ import annotations

import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from xxhash import xxh3_128_hexdigest

from webcrawl.config import StoreConfig
from webcrawl.documents.values import clean
from webcrawl.errors import StoreError
from webcrawl.search.entry import IndexedPage, hosts_of
from webcrawl.search.indexer import Archived, Described, Indexer, IndexFigures, IndexPlan
from webcrawl.search.state import KnownPages
from webcrawl.search.texts import TextFiles
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.objects.store import ObjectStore

BODY_BYTES = 8_000_000
"""The size of a body: Quickwit takes 10 MB, and OpenSearch advises 5 to 15 MB."""
INDEX, INDEX_NAME = "index.json", "pages"

TEXT, WORD, TIME, NUMBER = "text", "word", "time", "number"
FIELDS: Mapping[str, str] = {
    "url": WORD,
    "title": TEXT,
    "description": TEXT,
    "author": TEXT,
    "text": TEXT,
    "anchors": TEXT,
    "host": WORD,
    "language": WORD,
    "type": WORD,
    "kind": WORD,
    "crawl": WORD,
    "copy_of": WORD,
    "fetched_at": TIME,
    "published_at": TIME,
    "importance": NUMBER,
}
"""The fields of a document, as in the index of `scrapy search`. `host` also has the domains above a host."""


def bulk_document(entry: IndexedPage, text: str) -> dict[str, Any]:
    """Returns the document of a page, without fields that are empty."""
    document = {
        "url": entry.url,
        "title": entry.title,
        "description": entry.description,
        "author": entry.author,
        "text": text,
        "anchors": list(entry.anchors),
        "host": hosts_of(entry.url),
        "language": entry.language,
        "type": entry.mime_type,
        "kind": entry.kind,
        "crawl": entry.crawl,
        "copy_of": entry.first if entry.first != entry.url else None,
        "fetched_at": entry.fetched_at,
        "published_at": entry.published_at,
        "importance": entry.importance,
    }
    return {name: value for name, value in document.items() if value not in (None, "", [])}


class SearchEngine(ABC):
    """An engine: the index that it creates, and the lines of a document in a body."""

    @abstractmethod
    def index(self) -> dict[str, Any]:
        """Returns the body of the request that creates the index."""

    @abstractmethod
    def lines(self, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yields the lines of a document."""


class OpenSearch(SearchEngine):
    """OpenSearch 1 to 3, and Elasticsearch 7 and later. A document is replaced by the next one with its URL."""

    _TYPES: Mapping[str, Mapping[str, Any]] = {
        TEXT: {"type": "text"},
        WORD: {"type": "keyword"},
        TIME: {"type": "date"},
        NUMBER: {"type": "float"},
    }

    def index(self) -> dict[str, Any]:
        # other fields are a mistake, and an index that guesses their types cannot be mended
        return {
            "mappings": {
                "dynamic": "strict",
                "properties": {name: self._TYPES[kind] for name, kind in FIELDS.items()},
            }
        }

    def lines(self, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        # an id has at most 512 bytes
        yield {"index": {"_index": INDEX_NAME, "_id": xxh3_128_hexdigest(document["url"].encode())}}
        yield document


class Quickwit(SearchEngine):
    """Quickwit 0.7 and later. It only adds documents, so each export is for an index of its own."""

    _TYPES: Mapping[str, Mapping[str, Any]] = {
        TEXT: {"type": "text", "tokenizer": "default", "record": "position"},
        WORD: {"type": "text", "tokenizer": "raw", "fast": True},
        TIME: {"type": "datetime", "input_formats": ["rfc3339"], "fast": True},
        NUMBER: {"type": "f64", "fast": True},
    }
    _SEVERAL = ("anchors", "host")

    def index(self) -> dict[str, Any]:
        return {
            "version": "0.7",
            "index_id": INDEX_NAME,
            "doc_mapping": {
                "mode": "strict",
                "field_mappings": [self._field(name, kind) for name, kind in FIELDS.items()],
                "timestamp_field": "fetched_at",
            },
            "search_settings": {"default_search_fields": ["title", "text", "anchors"]},
        }

    def lines(self, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        yield document

    def _field(self, name: str, kind: str) -> dict[str, Any]:
        facts = dict(self._TYPES[kind])
        if name in self._SEVERAL:
            facts["type"] = f"array<{facts['type']}>"
        return {"name": name, **facts}


ENGINES: Mapping[str, type[SearchEngine]] = {"opensearch": OpenSearch, "quickwit": Quickwit}


class _NoPages(KnownPages):
    """The pages of an index that has none."""

    def __init__(self) -> None:
        pass

    def see(self, key: int, state: int) -> tuple[bool, bool]:
        return False, False


class BulkExport(Indexer):
    """Writes all pages that belong in an index to a store, which must be empty; `stop` ends it incomplete."""

    def __init__(
        self,
        store: ObjectStore,
        engine: SearchEngine,
        config: StoreConfig,
        metadata: Metadata,
        archived: Archived,
        media: Described,
        *,
        report: Callable[[IndexFigures], None] = lambda figures: None,
    ) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="webcrawl-")
        super().__init__(None, Path(self._scratch.name), config, metadata, archived, media, report=report)
        self._store, self._engine = store, engine
        self._body, self._bodies = bytearray(), 0

    def run(self) -> None:
        """Writes all bodies, then the index; raises StoreError."""
        if next(iter(self._store.objects()), None) is not None:
            raise StoreError(f"{self._store.uri()} is not empty: name another folder")
        self._known, texts = _NoPages(), TextFiles(self._config)
        with self._scratch, closing(IndexPlan(self._folder)) as plan:
            self._make(plan)
            for batch in self._with_texts(plan, texts):
                self._put(batch)
                plan.done([entry for entry, _ in batch])
                if self.is_stopped:
                    return
        self._send()
        self.figures.problems, self.figures.pages = texts.problems, self.figures.added
        self._store.put(INDEX, _json(self._engine.index()))

    def _put(self, batch: Sequence[tuple[IndexedPage, str]]) -> None:
        for entry, text in batch:
            document = _lines(self._engine.lines(bulk_document(entry, clean(text))))
            if len(self._body) + len(document) > BODY_BYTES:
                self._send()
            self._body += document
        self.figures.added += len(batch)
        self._report(self.figures)

    def _send(self) -> None:
        if self._body:
            self._store.put(f"documents-{self._bodies:05}.ndjson", bytes(self._body))
            self._bodies += 1
            self._body.clear()


def _lines(objects: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(map(_json, objects))


def _json(value: Mapping[str, Any]) -> bytes:
    """Returns a line of JSON; lone surrogates, which the engines refuse, become "?"."""
    return (json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n").encode("utf-8", "replace")
