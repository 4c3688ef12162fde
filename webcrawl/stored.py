"""What a crawl has stored, read as a whole: rows of the metadata database with their documents from the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from webcrawl.body import Body
from webcrawl.config import FetchConfig, StoreConfig
from webcrawl.document import Document
from webcrawl.errors import StoreError
from webcrawl.stores.archive import open_archive
from webcrawl.stores.bodies import Bodies
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.record import has_body
from webcrawl.stores.warc import WarcPlace

Row = Mapping[str, Any]


class StoredPages:
    """The pages of a database and an archive. Methods raise StoreError."""

    def __init__(self, config: StoreConfig, fetch: FetchConfig) -> None:
        self.metadata = Metadata(config.metadata, history=config.history)
        self._archive = open_archive(config)
        self._bodies = Bodies(self._archive, fetch)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._archive.close()
        self.metadata.close()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every row, host by host in the order of URLs."""
        return self.metadata.scan()

    def get(self, url: str) -> dict[str, Any] | None:
        return self.metadata.get(url)

    def body(self, row: Row) -> Body | None:
        """The decoded body of a page; None when it is not in the archive."""
        place = place_of(row, self.metadata.get)
        return None if place is None else self.body_at(place)

    def body_at(self, place: WarcPlace) -> Body | None:
        """The decoded body of a record; None when it has none."""
        record, body = self._bodies.read(place)
        return body if has_body(record) else None

    def document(self, row: Row) -> Document | None:
        """The document of a page, as its pipelines had it; None when it is not in the archive, or damaged there."""
        try:
            body = self.body(row)
        except (StoreError, ValueError, EOFError, OSError):
            return None
        return None if body is None else Document(body, row["mime_type"] or "", row["charset"], row["url"])


def place_of(row: Row, get: Callable[[str], Row | None]) -> WarcPlace | None:
    """Where the archive has the body of a page: of a copy that of the first one, as `get` gives its row, or its own."""
    if row["duplicate_kind"] == "exact" and row["duplicate_of"] not in (None, row["url"]):
        first = get(row["duplicate_of"])
        if first is not None and first["digest"] == row["digest"] and first["duplicate_kind"] != "exact":
            row = first
    return own_place(row)


def own_place(row: Row) -> WarcPlace | None:
    """Where the archive has the answer of a page, for a copy without its body; None when it has not."""
    if row["warc_file"] is None:
        return None
    return WarcPlace(row["warc_file"], row["warc_offset"], row["warc_length"])
