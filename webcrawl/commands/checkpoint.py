"""`scrapy checkpoint`: a copy of a crawl's frontier, taken while it goes on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import DEFAULT_CRAWL, SessionCommand, check_crawl
from webcrawl.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from webcrawl.crawler.session import Session


class Command(SessionCommand):
    """Reads the engine, and holds the crawl's journal for as long; workers go on."""

    def syntax(self) -> str:
        return "[options] <folder or s3://bucket/prefix> [crawl id, default: CRAWL_ID or broad]"

    def short_desc(self) -> str:
        return "Write all that a crawl has queued, seen and given up into a folder or S3, while it goes on"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--force",
            action="store_true",
            help="replace a checkpoint that is there, once the new one is complete",
        )

    def crawl_id(self, args: list[str]) -> str:
        return args[1] if len(args) > 1 else DEFAULT_CRAWL

    async def work(self, session: Session, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.frontier.checkpoint.export import Exporter
        from webcrawl.frontier.checkpoint.save import save
        from webcrawl.stores.objects.registry import location, open_store

        connection = session.connection
        if not 1 <= len(args) <= 2:
            raise UsageError("name a folder or s3://bucket/prefix, and a crawl if it is not the default one")
        if session.config.bloom:
            raise ConfigurationError(
                'SEEN_SET = "bloom" keeps what was seen out of the engine: no checkpoint can be written'
            )
        await check_crawl(session)
        if await connection.crawl.restoring():
            raise StoreError(f"crawl {connection.keys.crawl!r} is not yet, or only in part, restored")
        await connection.tails.check()
        store = open_store(location(args[0]), "checkpoint", session.stores.object_stores)
        exporter = Exporter(connection.engine, connection.keys, connection.worker, connection.tails)
        manifest = await save(exporter, store, force=opts.force)
        size = sum(file.bytes for file in manifest.files)
        print(
            f"Crawl {manifest.crawl!r} is in {store.uri()}: {manifest.counts['open']:,} URLs to crawl, "
            f"{manifest.counts['seen']:,} seen, {size / 1e6:,.1f} MB."
        )
        if lost := manifest.counts["lost"]:
            print(f"{lost:,} URLs are not in it: their segments are damaged or missing.")
