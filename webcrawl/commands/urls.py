"""`scrapy urls`: lists all known URLs of a crawl, or changes waiting URLs, also while the crawl runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import OpenedCrawlCommand, flag, option
from webcrawl.documents.disk import failure
from webcrawl.documents.values import counted
from webcrawl.errors import LibraryMissing
from webcrawl.opened import host_named

if TYPE_CHECKING:
    from webcrawl.frontier.listing.changes import Changes
    from webcrawl.frontier.listing.listing import CountLinks
    from webcrawl.opened import OpenedCrawl
    from webcrawl.results.exports.parts import ExportPart
    from webcrawl.stores.metadata import Metadata

_FORMATS = ("jsonl", "csv", "parquet")
_ENDINGS = {name: name for name in _FORMATS} | {"jl": "jsonl"}


class _Wanted(NamedTuple):
    """The states to list, and the host and the format, or None."""

    states: tuple[str, ...]
    host: str | None
    form: str


class Command(OpenedCrawlCommand):
    """Reads and changes a crawl in batches while its workers run."""

    summary = "List every known URL, or change those that wait"
    description = "List every known URL of a crawl, or set levels and dates of those that wait, or drop them"
    options = (
        option("-o --output", "write to this file, by default to standard output", metavar="FILE"),
        option("--format", "by default what the name of the file says, else JSON lines", choices=_FORMATS),
        option("--host", "only those of one host, such as https://example.org", metavar="URL"),
        option(
            "--state",
            "only those in these states, of queued,waiting,scheduled,leased,done,dead,dropped",
            metavar="STATES",
        ),
        flag("--no-in-links", "do not count the links to each URL in the link store"),
        option(
            "--set",
            "change URLs by this Parquet, JSON lines or CSV file with columns url and level, weight, date or drop",
            dest="changes",  # Scrapy has a -s of that name
            metavar="FILE",
        ),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        wanted = _wanted(opts)
        await opened.check_complete()
        if opts.changes:
            await _set(opened, Path(opts.changes))
        else:
            await _list(opened, wanted, opts.output, with_links=not opts.no_in_links)


def _wanted(opts: argparse.Namespace) -> _Wanted:
    from webcrawl.frontier.listing.listing import STATES

    if opts.changes and (opts.output or opts.format or opts.host or opts.state):
        raise UsageError("--set takes no options for listing")
    states = tuple(opts.state.split(",")) if opts.state else STATES
    if unknown := [state for state in states if state not in STATES]:
        raise UsageError(f"--state: {unknown[0]!r} is none of {', '.join(STATES)}")
    form = opts.format or _format_of(opts.output)
    if form == "parquet" and not opts.output:
        raise UsageError("--format parquet needs a file: -o FILE")
    return _Wanted(states, host_named(opts.host) if opts.host else None, form)


def _format_of(output: str | None) -> str:
    """Returns the format by the ending of a file name; raises UsageError for an unknown ending."""
    ending = Path(output).suffix[1:].lower() if output else ""
    if ending and ending not in _ENDINGS:
        raise UsageError(f"-o: .{ending} is none of .{', .'.join(_ENDINGS)}; --format writes any file")
    return _ENDINGS.get(ending, "jsonl")


async def _list(opened: OpenedCrawl, wanted: _Wanted, output: str | None, *, with_links: bool) -> None:
    from webcrawl.frontier.listing.engine_urls import EngineURLs
    from webcrawl.frontier.listing.listing import URLListing

    connection = opened.connection
    metadata = opened.metadata_if_any()
    reading = EngineURLs(
        connection.engine, connection.keys, connection.tails, connection.worker, wanted.host, _tell_holder
    )
    states: Counter[str] = Counter()
    with metadata or nullcontext(), _written(opened, wanted.form, output) as part:
        count = _count_links(opened, metadata) if with_links else None
        async for rows in URLListing(reading, metadata, count, wanted.states).rows():
            part.write(rows)
            states.update(row["state"] for row in rows)
    kinds = "".join(f", {states[state]:,} {state}" for state in wanted.states if states[state])
    print(f"{counted(states.total(), 'URL')}{kinds}.", file=sys.stderr)
    if reading.lost:
        print(
            f"Left out: {counted(reading.lost, 'URL')} in damaged or missing segments.",
            file=sys.stderr,
        )


@contextmanager
def _written(opened: OpenedCrawl, form: str, output: str | None) -> Iterator[ExportPart]:
    """Yields standard output, or a temporary file that gets its name when it is complete."""
    from webcrawl.config.private_files import readable_outside
    from webcrawl.frontier.listing.listing import FIELDS
    from webcrawl.results.exports.parts import FORMATS

    if output is None:
        sys.stdout.flush()
        with open(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", newline="") as out:
            yield FORMATS[form](out, FIELDS)
        return
    path = Path(output)
    unfinished = path.with_name(f".{path.name}.unfinished")
    with readable_outside(opened.stores.data_dir, path):
        try:
            unfinished.touch()
        except OSError as error:
            raise failure("write", path, error) from error
        part = FORMATS[form](unfinished, FIELDS)
    try:
        yield part
        part.close()
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _count_links(opened: OpenedCrawl, metadata: Metadata | None) -> CountLinks | None:
    """Returns a function that counts the links that pages have now, or None without a link store."""
    from webcrawl.links.questions import CurrentLinkCounts, link_counts
    from webcrawl.links.sources import has_link_files, link_files_if_any
    from webcrawl.stores.current_pages import CurrentPages

    try:
        files = link_files_if_any(opened.stores)
    except LibraryMissing as error:
        if has_link_files(opened.stores):
            print(f"in_links is empty: {error}", file=sys.stderr)
        return None
    if files is None:
        return None
    if files.unfinished:
        print("The latest links are not counted: crawls are still writing them.", file=sys.stderr)
    if metadata is None:
        return lambda urls: link_counts(files.openers, urls)
    return CurrentLinkCounts(files.openers, CurrentPages(metadata.contents())).of


async def _set(opened: OpenedCrawl, path: Path) -> None:
    from webcrawl.frontier.listing.change_files import changes_in
    from webcrawl.frontier.listing.changes import Changes
    from webcrawl.frontier.listing.setting import URLChanger

    connection = opened.connection
    with closing(Changes(connection.keys.shard)) as changes:
        changes.add(changes_in(path))
        _plan(opened, changes)
        setting = URLChanger(
            connection.engine,
            connection.keys,
            connection.tails,
            changes,
            opened.canonicalizer.fingerprint,
            _tell_reader,
        )
        await setting.run()
        counts = changes.counts()
    print(
        f"{counted(counts.get('changed', 0), 'URL')} changed: {counts['dropped_now']:,} dropped, "
        f"{counts['levelled']:,} with a level, {counts['dated']:,} with a date."
    )
    if planned := counts.get("planned"):
        print(
            f"{counted(planned, 'fetched URL')} planned for a date, at which a crawl with RECRAWL fetches them again."
        )
    if unplanned := counts.get("unplanned"):
        print(f"{counted(unplanned, 'fetched URL')} dropped from the plan of a crawl with RECRAWL.")
    for outcome, why in _LEFT.items():
        if number := counts.get(outcome):
            print(f"{counted(number, 'URL')} left as they are: {why}.")
    if counts.get("unreachable"):
        print(f"Run it again when the store of long queues is available: {setting.problem}", file=sys.stderr)


def _plan(opened: OpenedCrawl, changes: Changes) -> None:
    """Sets the dates of URLs that were fetched in the metadata database, or drops them, if there is a database."""
    from webcrawl.stores.due_pages import DuePages

    metadata = opened.metadata_if_any()
    if metadata is not None:
        metadata.close()
        with DuePages(opened.stores.metadata, opened.connection.keys.crawl) as due_pages:
            changes.plan(due_pages.set_dates)


_LEFT = {
    "unchanged": "they were so before",
    "leased": "a worker fetches them or is about to",
    "done": "they do not wait any more",
    "dead": "they are dead letters, see `scrapy stuck`",
    "dropped": "they were dropped before",
    "unknown": "the crawl does not know them",
    "unreachable": "they may be in the store of long queues, which is unavailable",
}
"""The reasons why URLs were not changed, by outcome."""


def _tell_holder(name: str) -> None:
    print(f"Waiting for {name}, which copies the crawl.", file=sys.stderr)


def _tell_reader() -> None:
    print("Waiting for a checkpoint or a listing, which reads the crawl.", file=sys.stderr)
