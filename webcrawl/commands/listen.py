"""`scrapy listen`: prints finished pages of a crawl as JSON lines."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from webcrawl.config.program import as_typed
from webcrawl.crawler.command import OpenedCrawlCommand, flag, option
from webcrawl.documents.values import counted
from webcrawl.errors import printable

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.crawler.pages.stored_texts import TextColumns
    from webcrawl.opened import OpenedCrawl
    from webcrawl.stores.listeners import Listener


_QUIET_SECONDS = 5.0
_WAITS = {
    "running": "is running, and has finished no further page yet",
    "holding": "is running, but waits for a store that accepts nothing; `scrapy status` has the reason",
    "paused": "is paused; `scrapy resume` continues it",
    "stopped": "has no worker, and URLs are queued; `scrapy crawl` continues it",
    "finished": "is finished; --from-start reads the pages that the stream still has",
    "empty": "has fetched nothing yet",
}
"""State of a crawl -> what a listener waits for."""


class Command(OpenedCrawlCommand):
    """Reads the engine, so workers may run on any machine."""

    summary = "Print each finished page as a JSON line"
    options = (
        option(
            "--group",
            "share the pages with other readers of this group, which continues where its readers stopped",
        ),
        option("--reader", "unique name in the group; by default the host name and process ID"),
        flag("--from-start", "begin with the oldest page in the stream"),
        flag("--text", "add the text of each page, from the archive; reads the stores too"),
        flag("--markdown", "add the Markdown of each HTML page too"),
        option("--count", "stop after this many pages", type=int),
        flag("--once", "stop when all pages in the stream are read"),
    )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        with suppress(KeyboardInterrupt):  # the usual way to stop
            super().run(args, opts)

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.stores.listeners import Listener

        if opts.reader and not opts.group:
            raise UsageError("--reader needs --group")
        if opts.count is not None and opts.count < 1:
            raise UsageError("--count must be at least 1")
        await opened.check_exists()
        listener = Listener(
            opened.connection.engine,
            opened.connection.keys,
            group=opts.group,
            reader=opts.reader or f"{socket.gethostname()}:{os.getpid()}",
            from_start=opts.from_start or bool(opts.group),
        )
        if not await opened.connection.engine.client.exists(opened.connection.keys.own("pages")):
            print("Nothing is published yet: run the crawl with LISTENERS_MAXLEN above 0.", file=sys.stderr)
        texts, heard = _texts(opened, self.settings, opts), asyncio.Event()
        telling = asyncio.create_task(_tell_waits(opened, heard))
        try:
            await self._print(listener, texts, heard, opts)
        finally:
            telling.cancel()
        _tell_missed(listener)

    async def _print(
        self, listener: Listener, texts: TextColumns | None, heard: asyncio.Event, opts: argparse.Namespace
    ) -> None:
        async for pages in listener.pages(forever=not opts.once, most=opts.count):
            heard.set()
            _tell_missed(listener)
            rows = [page.row for page in pages]
            for row in rows if texts is None else await _with_texts(rows, texts):
                print(printable(json.dumps(row, ensure_ascii=False)))
            # pages are acknowledged only after they have left this process
            sys.stdout.flush()
            await listener.done(pages)


async def _tell_waits(opened: OpenedCrawl, heard: asyncio.Event) -> None:
    """Says on stderr what no page comes for, after some seconds without one and when that changes."""
    from webcrawl.engine.client import UNAVAILABLE
    from webcrawl.web.overview import overview

    connection, shown = opened.connection, ""
    while True:
        with suppress(TimeoutError, *UNAVAILABLE):
            heard.clear()
            async with asyncio.timeout(_QUIET_SECONDS):
                await heard.wait()
            shown = ""
            continue
        with suppress(*UNAVAILABLE):
            why = _WAITS[(await overview(connection.crawl, connection.frontier)).state]
            if why != shown:
                print(
                    f"Waiting: crawl {connection.keys.crawl!r} {as_typed(why)}.", file=sys.stderr, flush=True
                )
                shown = why


def _texts(
    opened: OpenedCrawl, settings: BaseSettings | None, opts: argparse.Namespace
) -> TextColumns | None:
    """Returns the reader of the requested columns, or None; raises StoreError without a metadata database."""
    names = [name for name in ("text", "markdown") if getattr(opts, name)]
    if not names:
        return None
    from webcrawl.crawler.pages.stored_texts import StoredTexts, TextColumns

    assert settings is not None
    texts = StoredTexts(opened, settings, opened.metadata())
    return TextColumns(texts, texts.names(names))


async def _with_texts(rows: list[dict[str, Any]], texts: TextColumns) -> list[dict[str, Any]]:
    """Returns the rows with their non-empty text columns; reports pages with unreadable records on stderr."""
    from webcrawl.documents.page import ROW_FIELDS

    complete = [dict.fromkeys(ROW_FIELDS) | row for row in rows]
    before = texts.unread
    rows_with_texts = await texts.added(complete, texts.documents(complete))
    if texts.unread > before:
        unread = counted(texts.unread - before, "page")
        print(
            f"{unread} could not be read in the archive, such as {printable(texts.problem)}", file=sys.stderr
        )
        texts.problem = ""
    return [{name: value for name, value in row.items() if value is not None} for row in rows_with_texts]


def _tell_missed(listener: Listener) -> None:
    if missed := listener.missed():
        print(
            f"About {counted(missed, 'page')} dropped out of the stream before they were read.",
            file=sys.stderr,
        )
