"""Makes the full-text index of an opened crawl, or brings it up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scrapy.settings import Settings

from webcrawl.crawler.pages.stored_texts import StoredTexts, TextColumns
from webcrawl.opened import OpenedCrawl
from webcrawl.search.bulk import BulkExport, SearchEngine
from webcrawl.search.folder import open_to_write
from webcrawl.search.indexer import Indexer, IndexFigures
from webcrawl.search.media import MediaTexts
from webcrawl.search.texts import check_links
from webcrawl.stores.archive import archive_to_read
from webcrawl.stores.bodies import Bodies
from webcrawl.stores.locations import Row
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.objects.store import ObjectStore

ReportProgress = Callable[[IndexFigures], None]


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """A run of an indexer. `unread`: archived pages that could not be read; `problem`: the reason for one of them."""

    figures: IndexFigures
    unread: int
    problem: str
    is_stopped: bool


async def update_index(
    opened: OpenedCrawl, settings: Settings, folder: Path, report: ReportProgress, *, anew: bool = False
) -> IndexUpdate:
    """Brings the index in a folder up to date with the stored pages; makes it if there is none, or `anew`.

    When the task is cancelled, what is indexed by then is kept, and `is_stopped` is set. Raises StoreError.
    """
    with opened.metadata() as metadata:
        # raises StoreError for a damaged file before `anew` deletes the index
        check_links(opened.stores)
        with open_to_write(folder, again=anew) as index:
            sources = _Sources(opened, settings, metadata)
            indexer = Indexer(
                index, folder, opened.stores, metadata, sources.archived, sources.media, report=report
            )
            return await sources.run(indexer)


async def write_bodies(
    opened: OpenedCrawl, settings: Settings, store: ObjectStore, engine: SearchEngine, report: ReportProgress
) -> IndexUpdate:
    """Writes the stored pages for another search engine into an empty store; see `webcrawl.search.bulk`.

    When the task is cancelled, the store is left incomplete, and `is_stopped` is set. Raises StoreError.
    """
    with opened.metadata() as metadata:
        check_links(opened.stores)
        sources = _Sources(opened, settings, metadata)
        export = BulkExport(
            store, engine, opened.stores, metadata, sources.archived, sources.media, report=report
        )
        return await sources.run(export)


class _Sources:
    """The texts of pages that have no stored text: those in the archive, and those about media."""

    def __init__(self, opened: OpenedCrawl, settings: Settings, metadata: Metadata) -> None:
        self._columns = TextColumns(StoredTexts(opened, settings, metadata), ["text"])
        self._loop = asyncio.get_running_loop()
        self.media = MediaTexts(metadata, Bodies(archive_to_read(opened.stores), opened.fetch)).of

    def archived(self, rows: Iterable[Row]) -> Iterator[Row]:
        return self._columns.added_to_all(rows, self._loop)

    async def run(self, indexer: Indexer) -> IndexUpdate:
        # in a thread, because the event loop of this thread runs the reader processes
        running = asyncio.create_task(asyncio.to_thread(indexer.run))
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            # Ctrl-C: indexed pages are committed, and the next run continues
            indexer.stop()
            await running
        return IndexUpdate(indexer.figures, self._columns.unread, self._columns.problem, indexer.is_stopped)
