"""`scrapy page URL`: shows what is stored about a page."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from webcrawl.crawler.command import SessionCommand
from webcrawl.documents.values import printable
from webcrawl.errors import StoreError, UnreadableDocument
from webcrawl.urls.seeds import seed_url

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.crawler.session import Session
    from webcrawl.stores.bodies import Bodies
    from webcrawl.stores.locations import Row
    from webcrawl.stores.metadata import Metadata
    from webcrawl.stores.warc.files import WarcPlace

_LIMITS = "the limit of DOCUMENT_MAXSIZE for its type, or DOWNLOAD_MAXSIZE"


class Command(SessionCommand):
    """Reads the stores; needs no engine."""

    needs_engine = False

    def syntax(self) -> str:
        return "[options] <url>"

    def short_desc(self) -> str:
        return "Show the stored metadata of a page and, on request, its archived headers, body or text"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print the row as JSON")
        parser.add_argument(
            "--headers", action="store_true", help="print the archived HTTP response headers too"
        )
        only = parser.add_mutually_exclusive_group()
        only.add_argument("--body", action="store_true", help="print only the archived body")
        only.add_argument(
            "--text", action="store_true", help="print only the main part of its text, or the whole text"
        )
        only.add_argument("--markdown", action="store_true", help="print only the same as Markdown, for HTML")

    def crawl_id(self, args: list[str]) -> str | None:
        return None

    async def work(self, session: Session, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.crawler.command import existing_metadata
        from webcrawl.stores.locations import own_place

        if len(args) != 1:
            raise StoreError("give one URL")
        url = seed_url(args[0])
        with existing_metadata(session) as metadata:
            row = metadata.get(url) or metadata.get(session.canonicalizer.canonical(url))
            if row is None:
                raise StoreError(f"nothing is stored about {url} in {metadata.name}")
            if opts.body:
                _print_body(session, row, metadata)
                return
            if opts.text or opts.markdown:
                assert self.settings is not None
                print(await _text(session, self.settings, row, metadata, markdown=opts.markdown))
                return
        if opts.json:
            print(json.dumps(row, indent=2, default=str))
        else:
            for name, value in row.items():
                if value is not None:
                    print(printable(f"{name:>16}  {value}"))
        if opts.headers:
            record = _bodies(session).head(_archived(row, own_place(row)))
            print("", *map(printable, record.http_head.decode("latin-1").strip().split("\r\n")), sep="\n")


async def _text(
    session: Session, settings: BaseSettings, row: Row, metadata: Metadata, *, markdown: bool
) -> str:
    """Returns the text of the archived page; raises StoreError for one that has none."""
    from webcrawl.crawler.pages.stored_texts import StoredTexts

    texts = StoredTexts(session, settings, metadata)
    document = texts.document(row)
    if document is None:
        raise StoreError(f"the body of {row['url']} is not in the archive")
    try:
        found = await texts.text(document, markdown=markdown)
    except UnreadableDocument as error:
        raise StoreError(f"{row['url']} {error}") from error
    text = found.markdown if markdown else found.text
    if not text:
        raise StoreError(f"{row['url']} ({document.mime_type}) has no {'Markdown' if markdown else 'text'}")
    return "\n".join(map(printable, text.split("\n")))


def _print_body(session: Session, row: Row, metadata: Metadata) -> None:
    """Prints the body in chunks, so that its size does not matter; reports missing parts on stderr."""
    from webcrawl.stores.locations import place_of, place_with_body

    bodies, own = _bodies(session), _archived(row, place_of(row, metadata.get))
    place = place_with_body(own, bodies.head, metadata.history)
    if place is None:
        first = row["duplicate_of"]
        raise StoreError(
            f"the body of {row['url']} is not in the archive: the page is a duplicate of {first}"
        )
    _, found, most = bodies.chunks(place)
    out, left = sys.stdout.buffer, most
    for piece in found:
        out.write(piece[: int(min(left, len(piece)))])
        if (left := left - len(piece)) < 0:
            break
    out.flush()
    if left < 0:
        print(f"The decoded body is truncated at {most:,} bytes: {_LIMITS}.", file=sys.stderr)
    elif row["truncated"]:
        print(f"The body was truncated when it was fetched: {row['truncated']}.", file=sys.stderr)


def _bodies(session: Session) -> Bodies:
    from webcrawl.stores.archive import archive_to_read
    from webcrawl.stores.bodies import Bodies

    return Bodies(archive_to_read(session.stores), session.fetch)


def _archived(row: Row, place: WarcPlace | None) -> WarcPlace:
    if place is None:
        raise StoreError(f"{row['url']} is not in the archive")
    return place
