"""`scrapy stuck`: lists what failed for good and what could not be processed, or queues it again."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import OpenedCrawlCommand, exclusive, flag, option
from webcrawl.documents.values import counted, shown_time, without_class
from webcrawl.errors import StoreError, printable
from webcrawl.opened import host_named

if TYPE_CHECKING:
    from webcrawl.alarms.stuck import Kind, StuckPage, StuckPages
    from webcrawl.frontier import DeadLetter
    from webcrawl.frontier.dead_letters import CrawlDeadLetters
    from webcrawl.opened import OpenedCrawl

_DEAD: Kind = "DEAD_LETTER"
_KINDS: tuple[Kind, ...] = ("SCHEMA", "DOCUMENT", _DEAD)
_BATCH = 100


class Command(OpenedCrawlCommand):
    """Reads the metadata database, and the dead letters in the engine; prints the total to stderr.

    Without the metadata database, it lists dead letters alone.
    """

    summary = "List what failed for good, or queue it again"
    description = (
        "List the URLs that failed for good (dead letters) and the pages that could not be processed, the oldest "
        "first, with reasons; or queue dead letters again"
    )
    noun = "stuck page"
    options = (
        option("--kind", "only those of one kind", choices=_KINDS),
        option("--host", "only those of one host, such as https://example.org", metavar="URL"),
        option("--reason", "only those whose reason contains TEXT", default="", metavar="TEXT"),
        exclusive(
            flag("--json", "print JSON lines"),
            flag("--requeue", "queue dead letters again, with no attempts counted"),
            flag(
                "--forget",
                "forget those that a schema or reader refused, for example because the spider was repaired",
            ),
        ),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        host = host_named(opts.host) if opts.host else None
        if opts.requeue:
            await _requeue(opened, host, opts)
        elif opts.forget:
            _forget(opened, host, opts)
        else:
            await self._list(opened, Wanted(opts.kind, host, opts.reason), as_json=opts.json)

    async def _list(self, opened: OpenedCrawl, wanted: Wanted, *, as_json: bool) -> None:
        is_known, listed = await opened.connection.adopt_layout(), 0
        with closing(_TimeOrder()) as rows:
            try:
                await rows.add(_rows(opened, wanted, is_known=is_known))
            except StoreError as error:
                if not is_known:
                    raise
                print(f"Only dead letters are listed: {error}", file=sys.stderr)
                rows.clear()
                await rows.add(_letters(opened, wanted, {}))
            for row in rows:
                listed += 1
                print(self.line(row, as_json=as_json))
        if not listed and not is_known:
            await opened.check_exists()  # raises StoreError
        print(f"{counted(listed, self.noun)}.", file=sys.stderr)

    def line(self, row: dict[str, Any], *, as_json: bool) -> str:
        """Returns the line of a row."""
        if as_json:
            return json.dumps(row)
        where = f"  [{row['warc_file']} at {row['warc_offset']}]" if row.get("warc_file") else ""
        when = shown_time(datetime.fromisoformat(row["updated"]))
        reason = without_class(row["reason"])
        if row["kind"] == _DEAD and row.get("attempts") is not None:
            reason += f" ({row['attempts']} failed before)" if row["attempts"] else " (the first attempt)"
        return printable(f"{when}  {row['kind']:<11}  {row['url']}  {reason}{where}")


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """The rows to list. None and "" stand for all."""

    kind: Kind | None = None
    host: str | None = None
    reason: str = ""

    def has(self, kind: Kind) -> bool:
        return self.kind in (None, kind)


async def _requeue(opened: OpenedCrawl, host: str | None, opts: argparse.Namespace) -> None:
    if opts.kind not in (None, _DEAD):
        raise UsageError("--requeue queues dead letters: leave out --kind", print_help=False)
    await opened.check_exists()
    queued = await _dead_letters(opened).requeue(host, opts.reason)
    more = " They need a running worker." if queued else ""
    print(f"{counted(queued, 'dead letter')} queued again.{more}")


def _forget(opened: OpenedCrawl, host: str | None, opts: argparse.Namespace) -> None:
    from webcrawl.alarms.stuck import StuckPages

    if host or opts.reason:
        raise UsageError("--forget forgets all of a kind: leave out --host and --reason", print_help=False)
    forgotten = 0
    with StuckPages(opened.stores.metadata) as stuck:
        for kind in _KINDS:
            if kind == opts.kind or (opts.kind is None and kind != _DEAD):
                forgotten += stuck.remove(opened.connection.keys.crawl, kind)
    print(f"{counted(forgotten, 'page')} forgotten.")


class _TimeOrder:
    """Sorts rows by the time `updated`, in a temporary file, so that memory is bounded."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("")  # a temporary file, which SQLite deletes
        self._database.execute("CREATE TABLE stuck (time TEXT, row TEXT)")

    async def add(self, rows: AsyncIterator[dict[str, Any]]) -> None:
        async for row in rows:
            self._database.execute("INSERT INTO stuck VALUES (?, ?)", (row["updated"], json.dumps(row)))

    def clear(self) -> None:
        self._database.execute("DELETE FROM stuck")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for (row,) in self._database.execute("SELECT row FROM stuck ORDER BY time, rowid"):
            yield json.loads(row)

    def close(self) -> None:
        self._database.close()


async def _rows(opened: OpenedCrawl, wanted: Wanted, *, is_known: bool) -> AsyncIterator[dict[str, Any]]:
    """Yields stuck pages with the locations of their raw pages. `is_known`: take dead letters from the engine."""
    from webcrawl.alarms.stuck import StuckPages

    dead_letters: dict[str, StuckPage] = {}
    with StuckPages(opened.stores.metadata) as stuck:
        for page, row in _stored(stuck, opened.connection.keys.crawl, wanted):
            if is_known and page.kind == _DEAD:
                dead_letters[page.url] = page
            elif wanted.has(page.kind):
                yield row
    if is_known and wanted.has(_DEAD):
        async for row in _letters(opened, wanted, dead_letters):
            yield row


def _stored(stuck: StuckPages, crawl: str, wanted: Wanted) -> Iterator[tuple[StuckPage, dict[str, Any]]]:
    """Yields the pages of table `stuck` whose host and reason are wanted, with their rows."""
    prefix = f"{wanted.host}/" if wanted.host else ""
    pages = stuck.pages(crawl, limit=_BATCH, prefix=prefix)
    while pages:
        raw = stuck.raw([page.url for page in pages])
        for page in pages:
            if wanted.reason in page.reason:
                location = raw.get(page.url)
                yield page, _fields(page) | (dataclasses.asdict(location) if location else {})
        pages = stuck.pages(crawl, after=pages[-1], limit=_BATCH, prefix=prefix)


async def _letters(
    opened: OpenedCrawl, wanted: Wanted, stored: dict[str, StuckPage]
) -> AsyncIterator[dict[str, Any]]:
    """Yields the dead letters of the engine. `stored`: those that table `stuck` has, by URL."""
    crawl = opened.connection.keys.crawl
    async for letter in _dead_letters(opened).letters(wanted.host, wanted.reason):
        page = stored.get(letter.url)
        when = datetime.fromtimestamp(letter.time, UTC).isoformat()
        about = {"crawl": crawl, "url": letter.url, "kind": _DEAD, "reason": letter.reason}
        row = {**about, "created": when, "updated": when, "notified": None} | (_fields(page) if page else {})
        yield row | {"attempts": letter.attempts, "queued_at": _iso(letter)}


def _iso(letter: DeadLetter) -> str | None:
    """Returns when a dead letter was first queued."""
    return None if letter.queued_at is None else datetime.fromtimestamp(letter.queued_at, UTC).isoformat()


def _dead_letters(opened: OpenedCrawl) -> CrawlDeadLetters:
    from webcrawl.frontier.dead_letters import CrawlDeadLetters  # few commands need what it imports

    return CrawlDeadLetters(opened.connection.frontier, opened.connection.tails)


def _fields(page: StuckPage) -> dict[str, Any]:
    times = {name: getattr(page, name) for name in ("created", "updated", "notified")}
    return {
        **{name: getattr(page, name) for name in ("crawl", "url", "kind", "reason")},
        **{name: time and time.isoformat() for name, time in times.items()},
    }
