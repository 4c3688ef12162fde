"""`scrapy restore`: restores a crawl from a checkpoint, into any number of shards."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.config import object_stores, read
from webcrawl.config.program import program
from webcrawl.crawler.command import OpenedCrawlCommand, flag
from webcrawl.documents.values import counted
from webcrawl.errors import ConfigurationError

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl


class Command(OpenedCrawlCommand):
    """Writes to the engine. No worker of the crawl may run; workers can join only after the crawl is complete."""

    needs_crawl = False
    usage = "[options] <folder or URI>"
    summary = "Restore a crawl from a checkpoint"
    options = (flag("--force", "delete the existing crawl first"),)

    def crawl_id(self, args: list[str]) -> str:
        from webcrawl.frontier.checkpoint.files import load_manifest
        from webcrawl.stores.objects.store import location, open_store

        if not 1 <= len(args) <= 2:
            raise UsageError(
                "give the folder or URI of a checkpoint, and a crawl ID to restore it under another name"
            )
        classes = object_stores(self.settings)
        store = open_store(location(args[0]), "checkpoint", classes, check=False)
        crawl = load_manifest(store).crawl
        return args[1] if len(args) > 1 else str(read(self.settings, "CRAWL_ID") or crawl)

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.frontier.checkpoint.restore import Importer
        from webcrawl.frontier.checkpoint.save import load
        from webcrawl.stores.metadata import Metadata
        from webcrawl.stores.objects.store import location, open_store

        connection = opened.connection
        if opened.config.bloom:
            raise ConfigurationError('set SEEN_SET = "exact": a checkpoint cannot be restored with "bloom"')

        async def begun() -> None:
            # long queues, and a seen set that is too large, are spilled while they are restored
            await connection.begin_tails()
            connection.tails.start(lambda: range(connection.keys.shards))
            connection.cold.start(lambda: range(connection.keys.shards))

        async def restored() -> None:
            # not within a file: a later record of a host that has moved would replace all that is known of it
            while connection.tails.has_store and await connection.cold_hosts.move_if_full(
                range(connection.keys.shards)
            ):
                pass

        async def clear() -> None:
            await connection.clear(keeps_runs=True)

        def lacking(urls: Sequence[str]) -> set[str]:
            with Metadata(opened.stores.metadata) as metadata:
                return metadata.lacking(urls, connection.keys.crawl)

        classes = opened.stores.object_stores
        store = open_store(location(args[0]), "checkpoint", classes, check=False)
        try:
            importer = Importer(connection.engine, connection.keys, connection.worker, lacking)
            await load(importer, store, connection.crawl, clear, begun, restored, force=opts.force)
        finally:
            await connection.tails.stop()
            await connection.cold.stop()
        counts = await connection.frontier.counts()
        keys = connection.keys
        unit = " and POLITENESS_UNIT=origin" if keys.unit == "origin" else ""
        paused = (
            f" It is still paused: `{program()} resume` continues it."
            if await connection.crawl.paused()
            else ""
        )
        print(
            f"Crawl {keys.crawl!r} is in {connection.server}: {counts.open:,} URLs to crawl, "
            f"{counts.seen:,} seen. Continue it with FRONTIER_SHARDS={keys.shards}{unit}.{paused}"
        )
        if importer.lacking:
            print(
                f"The metadata database lacks {counted(importer.lacking, 'known page')}: "
                "they are among these URLs, and fetched once more."
            )
