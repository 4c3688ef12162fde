"""`scrapy page URL`: shows the stored metadata and the archived response of a page."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from webcrawl.crawler.command import StoresCommand, exclusive, flag
from webcrawl.documents.values import printable
from webcrawl.errors import StoreError
from webcrawl.urls.seeds import seed_url

if TYPE_CHECKING:
    from webcrawl.crawler.pages.archived_page import ArchivedPage
    from webcrawl.opened import OpenedCrawl

_LIMITS = "the limit of DOCUMENT_MAXSIZE for its type, or DOWNLOAD_MAXSIZE"


class Command(StoresCommand):
    """Reads the stores; needs no engine."""

    usage = "[options] <url>"
    summary = "Show what is stored about a page"
    description = "Show the stored metadata of a page and, on request, its archived headers, body or text"
    options = (
        flag("--json", "print the row as JSON"),
        flag("--headers", "print the archived HTTP response headers too"),
        exclusive(
            flag("--body", "print only the archived body"),
            flag("--text", "print only the main part of its text, or the whole text"),
            flag("--markdown", "print only the same as Markdown, for HTML"),
        ),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.crawler.pages.archived_page import ArchivedPage

        if len(args) != 1:
            raise StoreError("give one URL")
        url = seed_url(args[0])
        with opened.metadata() as metadata:
            row = metadata.get(url) or metadata.get(opened.canonicalizer.canonical(url))
            if row is None:
                raise StoreError(f"nothing is stored about {url} in {metadata.name}")
            page = ArchivedPage(opened, metadata, row)
            if opts.body:
                _print_body(page)
                return
            if opts.text or opts.markdown:
                text = await page.text(self.settings, markdown=opts.markdown)
                print("\n".join(map(printable, (text.markdown if opts.markdown else text.text).split("\n"))))
                return
        if opts.json:
            print(json.dumps(row, indent=2, default=str))
        else:
            for name, value in row.items():
                if value is not None:
                    print(printable(f"{name:>16}  {value}"))
        if opts.headers:
            print("", *map(printable, page.http_head()), sep="\n")


def _print_body(page: ArchivedPage) -> None:
    """Prints the body in chunks, in bounded memory; reports missing parts on stderr."""
    chunks, most = page.body()
    out, left = sys.stdout.buffer, most
    for chunk in chunks:
        out.write(chunk[: int(min(left, len(chunk)))])
        if (left := left - len(chunk)) < 0:
            break
    out.flush()
    if left < 0:
        print(f"The decoded body is truncated at {most:,} bytes: {_LIMITS}.", file=sys.stderr)
    elif page.row["truncated"]:
        print(f"The body was truncated when it was fetched: {page.row['truncated']}.", file=sys.stderr)
