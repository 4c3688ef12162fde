"""`scrapy page URL`: shows a page, from the archive or fetched for this, and what is stored about it."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from webcrawl.config.program import as_typed, program
from webcrawl.crawler.command import StoresCommand, exclusive, flag
from webcrawl.errors import ConfigurationError, CrawlError, StoreError, printable
from webcrawl.urls.seeds import seed_url

if TYPE_CHECKING:
    from scrapy.settings import Settings

    from webcrawl.crawler.pages.archived_page import ArchivedPage
    from webcrawl.opened import OpenedCrawl
    from webcrawl.stores.locations import Row
    from webcrawl.stores.metadata import Metadata

_LIMITS = "the limit of DOCUMENT_MAXSIZE for its type, or DOWNLOAD_MAXSIZE"
_MOST_REDIRECTS = 20


class Command(StoresCommand):
    """Reads the stores; needs no engine, unless it fetches the page on a temporary crawl."""

    usage = "[options] <url>"
    summary = "Show a page as Markdown, or its stored row"
    description = "Show a page as Markdown or text. A page that is not stored is fetched, and not stored"
    options = (
        exclusive(
            flag("--markdown", "print its main part as Markdown, or as text if it is not HTML; the default"),
            flag("--text", "print the main part of its text, or the whole text"),
            flag("--html", "print its source as text"),
            flag("--json", "print its row with text and Markdown as JSON"),
            flag("--row", "print what is stored about it, and fetch nothing"),
            flag("--body", "print the archived body as it is, and fetch nothing"),
        ),
        flag(
            "--headers", "print what is stored about it and the archived response headers, and fetch nothing"
        ),
        flag("--fetch", "fetch the page also if it is stored"),
        flag("--render", "fetch the page, and render it in a browser"),
    )
    _fetching = False
    """Whether the page was fetched, and was not in the stores of the crawl."""
    _is_missing = False

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        given = self.settings
        if not (opts.fetch or opts.render):
            super().run(args, opts)
        if opts.fetch or opts.render or self._is_missing:
            self._fetching = True
            try:
                self._fetch(given, args, opts)
            except CrawlError as error:
                print(f"{program()} page: {as_typed(error)}", file=sys.stderr)
                self.exitcode = 2 if isinstance(error, ConfigurationError) else 1

    def _fetch(self, given: Settings, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.temporary.page_fetch import fetched_page

        with fetched_page(given, _url(args), render=opts.render) as self.settings:
            super().run(args, opts)

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.crawler.pages.archived_page import ArchivedPage

        url, of_store = _url(args), opts.row or opts.body or opts.headers
        metadata = opened.metadata() if of_store else opened.metadata_if_any()
        with metadata or nullcontext():
            row = _row(metadata, opened, url, to_end=not of_store) if metadata else None
            if row is None and of_store:
                raise StoreError(f"nothing is stored about {url} in {opened.stores.metadata}")
            if metadata is None or row is None or (row["status"] is None and not of_store):
                # of a failed fetch the reason was printed
                self._is_missing, self.exitcode = not self._fetching, int(self._fetching)
                return
            is_error = self._fetching and row["status"] >= HTTPStatus.BAD_REQUEST
            if is_error:
                print(f"{program()} page: {row['url']} answered {_status(row['status'])}", file=sys.stderr)
                self.exitcode = 1
            with suppress(StoreError) if is_error else nullcontext():
                await self._print(ArchivedPage(opened, metadata, row), opts)

    async def _print(self, page: ArchivedPage, opts: argparse.Namespace) -> None:
        if opts.body:
            _print_body(page)
        elif opts.html:
            _print_lines(page.source())
        elif opts.json:
            print(json.dumps(await self._with_text(page), indent=2, default=str))
        elif opts.row or opts.headers:
            for name, value in page.row.items():
                if value is not None:
                    print(printable(f"{name:>16}  {value}"))
            if opts.headers:
                print("", *map(printable, page.http_head()), sep="\n")
        else:
            text = await page.text(self.settings, markdown=not opts.text)
            _print_lines(text.text if opts.text else _titled(text.markdown, page.row["title"]) or text.text)

    async def _with_text(self, page: ArchivedPage) -> dict[str, Any]:
        try:
            text = await page.text(self.settings, markdown=True)
        except StoreError:
            return {**page.row, "text": None, "markdown": None}
        return {**page.row, "text": text.text, "markdown": text.markdown or None}


def _titled(markdown: str, title: str | None) -> str:
    """Returns Markdown that begins with a heading: the title of the page stands outside the main part of many pages."""
    return markdown if not markdown or not title or markdown.startswith("#") else f"# {title}\n\n{markdown}"


def _url(args: list[str]) -> str:
    if len(args) != 1:
        raise UsageError("give one URL", print_help=False)
    return seed_url(args[0])


def _row(metadata: Metadata, opened: OpenedCrawl, url: str, *, to_end: bool) -> Row | None:
    """Returns the row of a URL; with `to_end`, that of the page to which its redirects lead, if it is stored."""
    row = metadata.get(url) or metadata.get(opened.canonicalizer.canonical(url))
    for _ in range(_MOST_REDIRECTS if to_end else 0):
        if (
            row is None
            or row["status"] is None
            or row["status"] // 100 != 3
            or row["final_url"] == row["url"]
        ):
            break
        if (target := metadata.get(row["final_url"])) is None:
            break
        row = target
    return row


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _print_lines(text: str) -> None:
    print("\n".join(map(printable, text.split("\n"))))


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
