"""`scrapy export`: writes the metadata of a crawl as Parquet, JSON Lines or CSV."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import SessionCommand
from webcrawl.documents.values import counted

if TYPE_CHECKING:
    from webcrawl.crawler.session import Session


class Command(SessionCommand):
    """Reads the metadata database, also while crawls write to it; needs no engine."""

    needs_engine = False

    def syntax(self) -> str:
        return "[options] -o <folder or URI>"

    def short_desc(self) -> str:
        return (
            "Write the metadata of all pages as Parquet, JSON Lines or CSV into a folder or an object store"
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "-o", "--output", help="folder, or URI of an object store such as s3://bucket/prefix"
        )
        parser.add_argument("--format", choices=("parquet", "jsonl", "csv"), default="parquet")
        parser.add_argument(
            "--partition",
            choices=("date", "host", "none"),
            default="date",
            help="folders by day of fetching (default), 16 folders by hash of the host, or none",
        )
        parser.add_argument("--host", help="only the pages of one host, such as https://example.org")
        parser.add_argument(
            "--crawl", help="only pages that this crawl fetched last (CRAWL_ID or the spider's name)"
        )
        parser.add_argument(
            "--since", help="only pages fetched at or after this date, such as 2026-02-03 or 2026-02-03T12:00"
        )
        parser.add_argument("--status", help="only these HTTP statuses, such as 200 or 2xx,304")
        parser.add_argument("--type", help="only these MIME types, such as text/html or image/*,text/css")
        parser.add_argument("--force", action="store_true", help="replace an existing export")

    def crawl_id(self, args: list[str]) -> str | None:
        return None

    async def work(self, session: Session, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.crawler.command import existing_metadata, host_named
        from webcrawl.results.exports.export import export
        from webcrawl.results.exports.parts import FORMATS
        from webcrawl.stores.objects.registry import location, open_store
        from webcrawl.stores.selection import of_crawl, of_type, since, with_status

        if args or not opts.output:
            raise UsageError("give the destination: -o folder or -o s3://bucket/prefix")
        host = host_named(opts.host) if opts.host else None
        conditions = {"crawl": of_crawl, "since": since, "status": with_status, "type": of_type}
        only = {name: value for name in ("host", *conditions) if (value := getattr(opts, name))}
        where = [conditions[name](value) for name, value in only.items() if name in conditions]
        store = open_store(location(opts.output), "--output", session.stores.object_stores)
        with existing_metadata(session) as metadata:
            manifest = export(
                metadata.scan(host, where=where),
                store,
                FORMATS[opts.format],
                opts.partition,
                source=metadata.name,
                only=only,
                force=opts.force,
            )
        print(
            f"{counted(manifest['rows'], 'page')} in {counted(len(manifest['files']), 'file')}: {store.uri()}"
        )
