"""Makes the full-text index of an opened crawl, or brings it up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scrapy.settings import Settings

from webcrawl.crawler.pages.stored_texts import StoredTexts, TextColumns
from webcrawl.opened import OpenedCrawl
from webcrawl.search.folder import open_to_write
from webcrawl.search.indexer import Indexer, IndexFigures
from webcrawl.search.media import MediaTexts
from webcrawl.search.texts import check_links
from webcrawl.stores.archive import archive_to_read
from webcrawl.stores.bodies import Bodies
from webcrawl.stores.locations import Row

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
            columns, loop = (
                TextColumns(StoredTexts(opened, settings, metadata), ["text"]),
                asyncio.get_running_loop(),
            )

            def archived(rows: Iterable[Row]) -> Iterator[Row]:
                return columns.added_to_all(rows, loop)

            media = MediaTexts(metadata, Bodies(archive_to_read(opened.stores), opened.fetch)).of
            indexer = Indexer(index, folder, opened.stores, metadata, archived, media, report=report)
            # in a thread, because the event loop of this thread runs the reader processes
            running = asyncio.create_task(asyncio.to_thread(indexer.run))
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                # Ctrl-C: indexed pages are committed, and the next run continues
                indexer.stop()
                await running
    return IndexUpdate(indexer.figures, columns.unread, columns.problem, indexer.is_stopped)
