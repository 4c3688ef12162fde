"""`scrapy index`: makes or updates the full-text index of the pages of a crawl."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import StoresCommand, flag, option
from webcrawl.documents.values import counted, printable

if TYPE_CHECKING:
    from webcrawl.crawler.pages.stored_texts import TextColumns
    from webcrawl.opened import OpenedCrawl
    from webcrawl.search.indexer import Indexer, IndexFigures
    from webcrawl.stores.locations import Row
    from webcrawl.stores.metadata import Metadata

_REPORT_SECONDS = 10.0
INDEX_FOLDER = option("--index", "the folder of the index, by default DATA_DIR/index", metavar="FOLDER")


class Command(StoresCommand):
    """Reads the stores, also while crawls write to them; needs no engine."""

    usage = "[options]"
    summary = "Make or update the full-text index of stored pages"
    description = (
        "Make or update a full-text index of the stored pages, for `scrapy search` and `scrapy copies`"
    )
    options = (
        INDEX_FOLDER,
        flag("--again", "make the index anew"),
        flag("--json", "print the figures as JSON"),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.config.private_files import end_privacy, keep_private
        from webcrawl.crawler.pages.stored_texts import StoredTexts, TextColumns
        from webcrawl.search.anchors import stored_anchors
        from webcrawl.search.folder import open_to_write

        if args:
            raise UsageError("scrapy index takes no arguments")
        keep_private(opened.stores.data_dir, self)
        try:
            with opened.metadata() as metadata:
                # raises StoreError for a damaged file before --again deletes the index
                stored_anchors(opened.stores)
                with open_to_write(index_folder(opened, opts), again=opts.again) as index:
                    columns = TextColumns(StoredTexts(opened, self.settings, metadata), ["text"])
                    indexer = await _run(opened, opts, metadata, index, columns)
        finally:
            end_privacy(self)
        _print(indexer.figures, columns, as_json=opts.json)
        self.exitcode = int(indexer.is_stopped)


def index_folder(opened: OpenedCrawl, opts: argparse.Namespace) -> Path:
    return Path(opts.index) if opts.index else opened.stores.data_dir / "index"


async def _run(
    opened: OpenedCrawl, opts: argparse.Namespace, metadata: Metadata, index: Any, columns: TextColumns
) -> Indexer:
    from webcrawl.search.indexer import Indexer
    from webcrawl.search.media import MediaTexts
    from webcrawl.stores.archive import archive_to_read
    from webcrawl.stores.bodies import Bodies

    loop = asyncio.get_running_loop()

    def archived(rows: Iterable[Row]) -> Iterator[Row]:
        return columns.added_to_all(rows, loop)

    bodies = Bodies(archive_to_read(opened.stores), opened.fetch)
    indexer = Indexer(
        index,
        index_folder(opened, opts),
        opened.stores,
        metadata,
        archived,
        MediaTexts(metadata, bodies).of,
        report=_Progress(),
    )
    # in a thread, because the event loop of this thread runs the reader processes
    running = asyncio.create_task(asyncio.to_thread(indexer.run))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        # Ctrl-C: indexed pages are committed, and the next run continues
        indexer.stop()
        await running
        print("Stopped. The next `scrapy index` goes on from here.", file=sys.stderr)
    return indexer


class _Progress:
    """Prints the progress of an indexer every ten seconds."""

    def __init__(self) -> None:
        self._at = time.monotonic()

    def __call__(self, figures: IndexFigures) -> None:
        if time.monotonic() - self._at >= _REPORT_SECONDS:
            self._at = time.monotonic()
            done = figures.added + figures.changed
            print(f"{done:,} of {counted(figures.planned, 'page')} indexed", file=sys.stderr, flush=True)


def _print(figures: IndexFigures, columns: TextColumns, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**asdict(figures), "unread": columns.unread}))
    else:
        changes = ", ".join(
            f"{number:,} {name}"
            for name, number in (
                ("added", figures.added),
                ("changed", figures.changed),
                ("removed", figures.removed),
            )
        )
        print(f"{counted(figures.pages, 'page')} in the index: {changes}")
    for problem in figures.problems:
        print(printable(problem), file=sys.stderr)
    if columns.unread:
        unread = counted(columns.unread, "archived page")
        print(f"{unread} could not be read, such as {printable(columns.problem)}", file=sys.stderr)
