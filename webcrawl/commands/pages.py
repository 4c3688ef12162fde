"""`scrapy pages`: lists the rows of stored pages by filters, in an order."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from webcrawl.config import read
from webcrawl.crawler.command import StoresCommand, flag, option, table
from webcrawl.documents.values import counted, plain, shown_time, size, without_class
from webcrawl.errors import printable
from webcrawl.opened import host_named
from webcrawl.stores.group_commit import batched

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl
    from webcrawl.stores.metadata import Metadata

_LIMIT, _BATCH = 100, 1_000
_HEADINGS = ("time", "status", "type", "language", "size", "URL", "title or error")
_FILTERS = ("status", "language", "depth", "duplicates", "since", "until", "text")


class Command(StoresCommand):
    """Reads the metadata database, also while crawls write to it; needs no engine. Prints the number to stderr."""

    usage = "[options]"
    summary = "List stored pages by status, type, date and more"
    description = "List the rows of table pages, one for each URL that was tried. Filters combine"
    options = (
        option(
            "--crawl",
            "only pages that this crawl fetched last; by default CRAWL_ID, or all crawls",
            metavar="ID",
        ),
        option(
            "--status",
            "only these HTTP statuses, such as 404 or 2xx,304; none for URLs without an answer",
            default="",
        ),
        option("--host", "only pages of one host, such as https://example.org", metavar="URL"),
        option("--type", "only these MIME types, such as text/html or image/*", default=""),
        option("--language", "only pages in this language, such as de", default=""),
        option("--depth", "only pages at this number of links from a seed, such as 2, 0-2 or 3-", default=""),
        option(
            "--duplicates",
            "only pages that are duplicates, or are none",
            choices=("any", "exact", "near", "no"),
        ),
        option(
            "--since",
            "only pages tried at or after this date or time, UTC by default",
            default="",
            metavar="DATE",
        ),
        option(
            "--until", "only pages tried until this date, its whole day, or time", default="", metavar="DATE"
        ),
        option(
            "--text",
            "only pages with TEXT in their URL or title; `scrapy search` finds words in their text",
            default="",
        ),
        option(
            "--sort",
            "date (latest first, default), url, status, type, language, depth, importance, length or duplicates; "
            "--sort=-date reverses an order",
            default="date",
            metavar="ORDER",
        ),
        option(
            "--limit", "pages to print, by default 100; 0 prints all", type=int, default=_LIMIT, metavar="N"
        ),
        flag("--json", "print JSON lines"),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.stores.page_filter import PageFilter
        from webcrawl.stores.page_list import PageList

        if args or opts.limit < 0:
            raise UsageError("give only options, and a limit from 0 on: `scrapy page URL` shows one page")
        with opened.metadata() as metadata:
            chosen = PageFilter(
                crawl=opts.crawl or read(self.settings, "CRAWL_ID") or _only_crawl(metadata),
                host=host_named(opts.host) if opts.host else "",
                mime_type=opts.type,
                **{name: getattr(opts, name) or "" for name in _FILTERS},
            )
            pages = PageList(metadata, chosen, opts.sort)
            rows = islice(pages.rows(), opts.limit or None)
            listed = _print_json(rows) if opts.json else _print_table(rows)
            if opts.sort != "date" and listed and not pages.window(most=1).in_order:
                print("Of so many pages, parts of 20,000 are sorted: use more filters.", file=sys.stderr)
        more = " There may be more: --limit 0 prints all." if listed == opts.limit else ""
        print(f"{counted(listed, 'row')}.{more}", file=sys.stderr)


def _only_crawl(metadata: Metadata) -> str:
    """Returns the only crawl of the database; "" if there are several."""
    crawls = metadata.crawls()
    return crawls[0] if len(crawls) == 1 else ""


def _print_json(rows: Iterator[dict[str, Any]]) -> int:
    """Prints rows, and returns their number."""
    number = 0
    for number, row in enumerate(rows, 1):  # noqa: B007
        print(printable(json.dumps(plain(row), ensure_ascii=False)))
    return number


def _print_table(rows: Iterator[dict[str, Any]]) -> int:
    """Prints rows, a thousand aligned at a time, and returns their number."""
    number, headings = 0, 1
    for batch in batched(rows, _BATCH):
        for line in list(table(_HEADINGS, map(_cells, batch), right=("size",)))[1 - headings :]:
            print(line)
        number, headings = number + len(batch), 0
    return number


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    length, tried = row["length"], row["tried_at"]
    return (
        shown_time(tried) if tried else "",
        str(row["status"] or "none"),
        row["mime_type"] or "",
        row["language"] or "",
        "" if length is None else size(length),
        row["url"],
        " ".join((without_class(row["error"] or "") or row["title"] or "").split()),
    )
