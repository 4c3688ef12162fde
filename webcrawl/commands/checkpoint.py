"""`scrapy checkpoint`: copies the frontier of a crawl, also while it runs."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import OpenedCrawlCommand, flag
from webcrawl.documents.values import counted
from webcrawl.errors import ConfigurationError

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl


class Command(OpenedCrawlCommand):
    """Reads the engine, and keeps the crawl's journal during the copy; workers continue."""

    usage = "[options] <folder or URI>"
    summary = "Copy the frontier to a folder or object store"
    description = (
        "Copy the queued, seen and failed URLs of a crawl to a folder or an object store, also while it runs"
    )
    options = (flag("--force", "replace an existing checkpoint, once the new one is complete"),)

    def crawl_id(self, args: list[str]) -> str | None:
        return args[1] if len(args) > 1 else None

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.frontier.checkpoint.export import Exporter
        from webcrawl.frontier.checkpoint.save import save
        from webcrawl.stores.objects.store import location, open_store

        connection = opened.connection
        if not 1 <= len(args) <= 2:
            raise UsageError("give a folder or a URI, and a crawl ID unless it is the default one")
        if opened.config.bloom:
            raise ConfigurationError(
                'a crawl with SEEN_SET = "bloom" has no checkpoints: its seen set is not in the engine'
            )
        await opened.check_complete()
        store = open_store(location(args[0]), "checkpoint", opened.stores.object_stores)
        exporter = Exporter(connection.engine, connection.keys, connection.worker, connection.tails)
        with await opened.due_pages() or nullcontext() as exporter.due_pages:
            manifest = await save(exporter, store, force=opts.force)
        size = sum(file.bytes for file in manifest.files)
        print(
            f"Crawl {manifest.crawl!r} is in {store.uri()}: {counted(manifest.counts['open'], 'URL')} to crawl, "
            f"{manifest.counts['seen']:,} seen, {size / 1e6:,.1f} MB."
        )
        if planned := manifest.counts.get("planned"):
            print(f"With the plan of {counted(planned, 'known page')}.")
        if lost := manifest.counts["lost"]:
            print(f"Left out: {counted(lost, 'URL')} in damaged or missing segments.")
