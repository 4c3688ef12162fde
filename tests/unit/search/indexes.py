"""Makes small indexes of rows of table `pages` and texts, without a crawl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.metadata import NOW, row
from webcrawl.config import StoreConfig
from webcrawl.search.entry import IndexedPage
from webcrawl.search.folder import open_to_write
from webcrawl.search.indexer import Indexer, IndexFigures
from webcrawl.search.query import ANYTHING, Filters
from webcrawl.search.searching import Hit, Search
from webcrawl.stores.metadata import Metadata

SITE = "https://www.example.org"


def page(path: str = "/", text: str = "", **values: Any) -> dict[str, Any]:
    """The row of an archived page, with its text. A `path` may be a whole URL."""
    url = path if "://" in path else SITE + path
    facts = {"status": 200, "mime_type": "text/html", "language": "en", "fetched_at": NOW, "crawl": "broad"}
    facts["title"] = "A page"
    place = {"warc_file": "a.warc.gz", "warc_offset": 0, "warc_length": 9}
    return {**row(url), **facts, **place, "text": text, **values}


class Pages:
    """The pages of a folder: `store` writes their rows, `index` brings the index up to date."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.texts: dict[str, str] = {}
        self.read: list[str] = []
        """The pages whose text was read in the archive."""

    def store(self, *pages: Mapping[str, Any]) -> None:
        with self.metadata() as metadata:
            metadata.upsert([{key: one[key] for key in one if key != "text"} for one in pages])
        self.texts |= {one["url"]: one["text"] for one in pages}

    @property
    def config(self) -> StoreConfig:
        uris = {name: (self.folder / name).as_uri() for name in ("links", "wet", "tables")}
        return StoreConfig(self.folder.as_uri(), f"sqlite:///{self.folder}/metadata.db", self.folder, **uris)

    def metadata(self) -> Metadata:
        return Metadata(f"sqlite:///{self.folder}/metadata.db")

    def index(
        self, *, again: bool = False, config: StoreConfig | None = None, **options: Any
    ) -> IndexFigures:
        place, stores = self.folder / "index", config or self.config
        with self.metadata() as metadata, open_to_write(place, again=again) as index:
            indexer = Indexer(index, place, stores, metadata, self.archived, self.media, **options)
            indexer.run()
        return indexer.figures

    def archived(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        for one in rows:
            self.read.append(one["url"])
            yield {**one, "text": self.texts[one["url"]]}

    def media(self, entries: Sequence[IndexedPage]) -> list[str]:
        return [self.texts[entry.url] for entry in entries]

    def search(self) -> Search:
        return Search(self.folder / "index")

    def hits(self, words: str, filters: Filters = ANYTHING, limit: int = 10) -> list[Hit]:
        return list(self.search().find(words, filters, limit).hits)

    def urls(self, words: str, filters: Filters = ANYTHING, limit: int = 10) -> list[str]:
        """The paths that are found, those of other hosts as URLs."""
        return [hit.entry.url.removeprefix(SITE) for hit in self.hits(words, filters, limit)]
