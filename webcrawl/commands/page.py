"""`scrapy page URL`: what is stored of a page."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from webcrawl.command import DEFAULT_CRAWL, SessionCommand
from webcrawl.errors import StoreError
from webcrawl.plain import shown
from webcrawl.seeds import seed_url

if TYPE_CHECKING:
    from webcrawl.session import Session
    from webcrawl.stores.record import StoredRecord


class Command(SessionCommand):
    """Reads the stores; no engine is needed."""

    needs_engine = False

    def syntax(self) -> str:
        return "[options] <url>"

    def short_desc(self) -> str:
        return "Show the stored metadata of a page and, on request, its archived headers or body"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print the row as JSON")
        parser.add_argument(
            "--headers", action="store_true", help="print the archived HTTP response headers too"
        )
        parser.add_argument("--body", action="store_true", help="print the archived body, and nothing else")

    def crawl_id(self, args: list[str]) -> str:
        return DEFAULT_CRAWL

    async def work(self, session: Session, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.stores.metadata import Metadata

        if len(args) != 1:
            raise StoreError("name one URL")
        url = seed_url(args[0])
        with Metadata(session.stores.metadata) as metadata:
            row = metadata.get(url)
        if row is None:
            raise StoreError(f"nothing is stored of {url} in {metadata.name}")
        if opts.body:
            sys.stdout.buffer.write(_record(session, row).body)
            return
        if opts.json:
            print(json.dumps(row, indent=2, default=str))
        else:
            for name, value in row.items():
                if value is not None:
                    print(shown(f"{name:>16}  {value}"))
        if opts.headers:
            head = _record(session, row).http_head.decode("latin-1").strip()
            print("", *map(shown, head.split("\r\n")), sep="\n")


def _record(session: Session, row: dict[str, Any]) -> StoredRecord:
    from webcrawl.stores.archive import open_archive
    from webcrawl.stores.warc import WarcPlace

    if row["warc_file"] is None:
        raise StoreError(f"{row['url']} is not in the archive")
    place = WarcPlace(row["warc_file"], row["warc_offset"], row["warc_length"])
    return open_archive(session.stores).read(place)
