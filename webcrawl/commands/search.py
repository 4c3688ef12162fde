"""`scrapy search WORDS`: finds pages in the full-text index of a crawl, which the first search makes."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.exceptions import UsageError

from webcrawl.config.program import program
from webcrawl.crawler.command import CommandOption, StoresCommand, flag, option
from webcrawl.documents.values import counted
from webcrawl.errors import printable

if TYPE_CHECKING:
    from scrapy.settings import Settings

    from webcrawl.crawler.pages.indexing import IndexUpdate
    from webcrawl.opened import OpenedCrawl
    from webcrawl.search.indexer import IndexFigures
    from webcrawl.search.query import Filters
    from webcrawl.search.searching import Hit

_LIMIT = 10
_MOST = 1_000
_ORDERS = ("best", "date")
_REPORT_SECONDS = 10.0
INDEX_FOLDER = option("--index", "the folder of the index, by default DATA_DIR/index", metavar="FOLDER")
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


class Command(StoresCommand):
    """Reads the index, also while another process updates it; needs no engine."""

    usage = "[options] <words>"
    summary = "Search the text of stored pages for words"
    description = (
        "Search the pages of a crawl for words. The first search makes an index of the stored pages; --update brings "
        "it up to date, with or without words"
    )
    options: ClassVar[tuple[CommandOption, ...]] = (
        option("--host", "only pages of this host and its subdomains, such as example.org"),
        option("--language", "only pages in these languages, such as en or en,de"),
        option("--type", "only these MIME types, such as text/html or image/*,text/css"),
        option("--since", "only pages fetched at or after this date or time (UTC)"),
        option("--until", "only pages fetched until this date, its whole day, or time"),
        option("--crawl", "only pages that this crawl fetched last"),
        flag("--media", "search images, audio and video instead"),
        option(
            "--like", "instead of words, a URL whose most characteristic words are searched", metavar="URL"
        ),
        option("--sort", "best, or date for the newest first, as published or else fetched", default="best"),
        flag(
            "--facets",
            "print the hosts, languages and types of all results with their numbers, after the results",
        ),
        option("--limit", "results to print, by default 10", type=int, default=_LIMIT),
        flag("--update", "first add pages to the index, and replace and remove some, to bring it up to date"),
        flag("--again", "with --update, make the index anew"),
        flag("--json", "print JSON lines"),
        INDEX_FOLDER,
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.search.folder import updated_at

        if args[:1] == ["--"]:
            # Scrapy leaves the "--" in `args`, after which words may begin with a hyphen
            args = args[1:]
        asks = bool(args or opts.like)
        if not (asks or opts.update) or not 0 < opts.limit <= _MOST or (opts.again and not opts.update):
            raise UsageError(
                f"give words, --like or --update, and a limit from 1 to {_MOST:,}; --again needs --update"
            )
        if args and opts.like:
            raise UsageError("give words or --like, not both")
        if opts.sort not in _ORDERS:
            raise UsageError(f"--sort {opts.sort!r}: give {' or '.join(_ORDERS)}")
        folder, filters = index_folder(opened, opts), _filters(opts)
        if opts.update or updated_at(folder) is None:
            update = await made_index(opened, self.settings, folder, opts)
            self.exitcode = int(update.is_stopped)
            if not asks:
                print(_figures(update, as_json=opts.json))
            if not asks or update.is_stopped:
                return
        self._search(folder, " ".join(args), filters, opts)

    def _search(self, folder: Path, words: str, filters: Filters, opts: argparse.Namespace) -> None:
        from webcrawl.search.searching import Search

        search = Search(folder)
        asked, find = (opts.like, search.like) if opts.like else (words, search.find)
        results = find(asked, filters, opts.limit, by_date=opts.sort == "date", facets=opts.facets)
        bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        for number, hit in enumerate(results.hits, 1):
            print(_json(hit) if opts.json else _text(number, hit, bold=bold))
        if opts.facets:
            print(json.dumps({"facets": results.facets}) if opts.json else _facets(results.facets))
        if results.corrected or not results.has_all:
            print("No page has all of these words.", file=sys.stderr)
        if results.corrected:
            print(f"These are results for: {printable(results.corrected)}", file=sys.stderr)
        if results.suggested:
            print(f"Did you mean: {printable(results.suggested)}", file=sys.stderr)
        print(f"{counted(results.total, 'result')}. {_age(folder)}", file=sys.stderr)


def index_folder(opened: OpenedCrawl, opts: argparse.Namespace) -> Path:
    return Path(opts.index) if opts.index else opened.stores.data_dir / "index"


async def made_index(
    opened: OpenedCrawl, settings: Settings, folder: Path, opts: argparse.Namespace
) -> IndexUpdate:
    """Makes an index or brings it up to date, and prints the progress and problems to stderr."""
    from webcrawl.crawler.pages.indexing import update_index
    from webcrawl.search.folder import updated_at
    from webcrawl.search.schema import tantivy

    # raises LibraryMissing before anything is announced
    tantivy()
    if updated_at(folder) is None:
        print(
            f"Making the index of the stored pages in {folder}, for this search and later ones.",
            file=sys.stderr,
        )
    update = await update_index(opened, settings, folder, IndexProgress(), anew=getattr(opts, "again", False))
    if update.is_stopped:
        print(f"Stopped. The next `{program()} search --update` goes on from here.", file=sys.stderr)
    for problem in update.figures.problems:
        print(printable(problem), file=sys.stderr)
    if update.unread:
        unread = counted(update.unread, "archived page")
        print(f"{unread} could not be read, such as {printable(update.problem)}", file=sys.stderr)
    return update


class IndexProgress:
    """Prints the progress of an indexer every ten seconds."""

    def __init__(self) -> None:
        self._at = time.monotonic()

    def __call__(self, figures: IndexFigures) -> None:
        if time.monotonic() - self._at >= _REPORT_SECONDS:
            self._at = time.monotonic()
            done = figures.added + figures.changed
            print(f"{done:,} of {counted(figures.planned, 'page')} indexed", file=sys.stderr, flush=True)


def _figures(update: IndexUpdate, *, as_json: bool) -> str:
    figures = update.figures
    if as_json:
        return json.dumps({**asdict(figures), "unread": update.unread})
    changes = f"{figures.added:,} added, {figures.changed:,} changed, {figures.removed:,} removed"
    return f"{counted(figures.pages, 'page')} in the index: {changes}"


def _facets(facets: Mapping[str, Sequence[tuple[str, int]]]) -> str:
    """Returns a line for each facet with its values and their numbers."""
    return "\n".join(
        f"{name}: {', '.join(f'{printable(value)} {number:,}' for value, number in values) or 'none'}"
        for name, values in facets.items()
    )


def _age(folder: Path) -> str:
    """Returns how old an index is, in a sentence."""
    from webcrawl.crawler.report.ending import about
    from webcrawl.search.folder import updated_at

    updated = updated_at(folder)
    assert updated is not None
    age = about((datetime.now(UTC) - updated).total_seconds())
    return f"The index is {age} old; `{program()} search --update` brings it up to date."


def _filters(opts: argparse.Namespace) -> Filters:
    from webcrawl.search.query import asked_filters

    names = ("host", "language", "type", "since", "until", "crawl", "media")
    return asked_filters(**{name: getattr(opts, name) for name in names})


def _json(hit: Hit) -> str:
    entry = asdict(hit.entry)
    names = ("url", "title", "description", "author", "language", "mime_type", "crawl", "fetched_at")
    line: dict[str, Any] = {name: entry[name] for name in (*names, "published_at", "importance", "details")}
    line |= {"score": round(hit.score, 3), "snippet": hit.snippet, "marks": hit.marks, "copies": hit.copies}
    return json.dumps({name: value for name, value in line.items() if value not in (None, [])})


def _text(number: int, hit: Hit, *, bold: bool) -> str:
    """Returns a result in up to four lines, with the words in bold on a terminal."""
    entry = hit.entry
    title = printable(" ".join((entry.title or entry.url).split()))
    facts = [entry.fetched_at[:10], entry.mime_type, entry.language, *_media_facts(entry.details)]
    lines = [
        f"{_BOLD}{title}{_PLAIN}" if bold else title,
        printable(entry.url) if entry.title else "",
        printable("  ".join(filter(None, facts))),
        _marked(hit.snippet, hit.marks, *((_BOLD, _PLAIN) if bold else ("", ""))),
    ]
    if hit.copies:
        copies = f"and {len(hit.copies) - 1} more" if len(hit.copies) > 1 else ""
        lines.append(printable(f"also at {hit.copies[0]} {copies}".rstrip()))
    first, *others = filter(None, lines)
    return "\n".join([f"{number:>2}. {first}", *(f"    {line}" for line in others)])


def _media_facts(details: Any) -> list[str]:
    """Returns the size and the duration of an image, audio or video file."""
    if not isinstance(details, dict):
        return []
    stream: Any = next((stream for stream in details.get("streams") or () if stream.get("width")), details)
    facts = []
    if stream.get("width") and stream.get("height"):
        facts.append(f"{stream['width']} x {stream['height']}")
    if details.get("duration"):
        facts.append(f"{details['duration']:,.0f} s")
    return facts


def _marked(text: str, marks: Sequence[tuple[int, int]], begin: str, end: str) -> str:
    """Returns a text for the terminal with `begin` and `end` around its marks."""
    parts, text_offset = [], 0
    for start, stop in marks:
        if start >= text_offset:
            parts += [printable(text[text_offset:start]), begin, printable(text[start:stop]), end]
            text_offset = stop
    return "".join([*parts, printable(text[text_offset:])])
