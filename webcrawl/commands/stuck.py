"""`scrapy stuck`: lists the pages of a crawl that could not be processed, with the locations of their raw pages."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from webcrawl.crawler.command import OpenedCrawlCommand, exclusive, flag, option
from webcrawl.documents.values import counted, printable

if TYPE_CHECKING:
    from webcrawl.alarms.stuck import Kind, StuckPage, StuckPages
    from webcrawl.opened import OpenedCrawl

_KINDS: tuple[Kind, ...] = ("SCHEMA", "DOCUMENT", "DEAD_LETTER")
_BATCH = 100


class Command(OpenedCrawlCommand):
    """Reads the metadata database, and the dead letters in the engine; prints the total to stderr."""

    summary = "List pages that could not be processed, with reasons"
    options = (
        option("--kind", "only those of one kind", choices=_KINDS),
        exclusive(
            flag("--json", "print JSON lines"),
            flag(
                "--forget",
                "forget those that a schema or reader refused, for example because the spider was repaired",
            ),
        ),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.alarms.stuck import StuckPages

        known = await opened.connection.adopt_layout()
        crawl = opened.connection.keys.crawl
        with StuckPages(opened.stores.metadata) as stuck:
            if opts.forget:
                forgotten = 0
                for kind in _KINDS:
                    if kind == opts.kind or (opts.kind is None and kind != "DEAD_LETTER"):
                        forgotten += stuck.remove(crawl, kind)
                print(f"{counted(forgotten, 'page')} forgotten.")
                return
            listed = 0
            async for row in _rows(opened, stuck, opts.kind, known=known):
                listed += 1
                print(json.dumps(row) if opts.json else _line(row))
        print(f"{counted(listed, 'stuck page')}.", file=sys.stderr)


async def _rows(
    opened: OpenedCrawl, stuck: StuckPages, wanted: Kind | None, *, known: bool
) -> AsyncIterator[dict[str, Any]]:
    """Yields stuck pages with the locations of their raw pages. `known`: take dead letters from the engine."""
    crawl = opened.connection.keys.crawl
    dead_letters: dict[str, StuckPage] = {}
    pages = stuck.pages(crawl, limit=_BATCH)
    while pages:
        raw = stuck.raw([page.url for page in pages])
        for page in pages:
            if known and page.kind == "DEAD_LETTER":
                dead_letters[page.url] = page
            elif wanted in (None, page.kind):
                location = raw.get(page.url)
                yield _fields(page) | (dataclasses.asdict(location) if location else {})
        pages = stuck.pages(crawl, after=pages[-1], limit=_BATCH)
    if known and wanted in (None, "DEAD_LETTER"):
        # imported late: no other command needs what it imports
        from webcrawl.frontier.dead_letters import CrawlDeadLetters

        async for letter in CrawlDeadLetters(opened.connection.frontier, opened.connection.tails).letters():
            row = _fields(dead_letters[letter.url]) if letter.url in dead_letters else {"notified": None}
            when = datetime.fromtimestamp(letter.time, UTC).isoformat()
            about = {"crawl": crawl, "url": letter.url, "kind": "DEAD_LETTER", "reason": letter.reason}
            yield {**about, "created": when, "updated": when, **row}


def _fields(page: StuckPage) -> dict[str, Any]:
    times = {name: getattr(page, name) for name in ("created", "updated", "notified")}
    return {
        **{name: getattr(page, name) for name in ("crawl", "url", "kind", "reason")},
        **{name: time and time.isoformat() for name, time in times.items()},
    }


def _line(row: dict[str, Any]) -> str:
    location = f"  [{row['warc_file']} at {row['warc_offset']}]" if row.get("warc_file") else ""
    return printable(f"{row['updated'][:19]}Z  {row['kind']:<11}  {row['url']}  {row['reason']}{location}")
