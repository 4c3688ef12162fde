"""`scrapy search WORDS`: finds pages in the full-text index of a crawl."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from webcrawl.commands.index import INDEX_FOLDER, index_folder
from webcrawl.crawler.command import StoresCommand, flag, option
from webcrawl.documents.values import counted, printable
from webcrawl.errors import ConfigurationError

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl
    from webcrawl.search.query import Filters
    from webcrawl.search.searching import Hit

_LIMIT = 10
_MOST = 1_000
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


class Command(StoresCommand):
    """Reads the index, also while `scrapy index` writes to it; needs no engine."""

    usage = "[options] <words>"
    summary = "Search the indexed pages for words"
    description = "Search the pages of a crawl for words; `scrapy index` makes the index"
    options = (
        option("--host", "only pages of this host and its subdomains, such as example.org"),
        option("--language", "only pages in these languages, such as en or en,de"),
        option("--type", "only these MIME types, such as text/html or image/*,text/css"),
        option("--since", "only pages fetched at or after this date or time (UTC)"),
        option("--until", "only pages fetched until this date, its whole day, or time"),
        option("--crawl", "only pages that this crawl fetched last"),
        flag("--media", "search images, audio and video instead"),
        option("--limit", "results to print, by default 10", type=int, default=_LIMIT),
        flag("--json", "print JSON lines"),
        INDEX_FOLDER,
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.search.searching import Search

        if args[:1] == ["--"]:
            # Scrapy leaves the "--" in `args`, after which words may begin with a hyphen
            args = args[1:]
        if not args or not 0 < opts.limit <= _MOST:
            raise UsageError(f"give the words, and a limit from 1 to {_MOST:,}")
        results = Search(index_folder(opened, opts)).find(" ".join(args), _filters(opts), opts.limit)
        bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        for number, hit in enumerate(results.hits, 1):
            print(_json(hit) if opts.json else _text(number, hit, bold=bold))
        if not results.has_all:
            print("No page has all of these words.", file=sys.stderr)
        print(f"{counted(results.total, 'result')}.", file=sys.stderr)


def _filters(opts: argparse.Namespace) -> Filters:
    from webcrawl.search.query import Filters
    from webcrawl.search.schema import MEDIA, PAGE
    from webcrawl.stores.selection import of_type

    if opts.type:
        of_type(opts.type)  # raises ConfigurationError

    return Filters(
        host=opts.host,
        languages=_words(opts.language),
        types=_words(opts.type),
        since=_time("--since", opts.since),
        until=_time("--until", opts.until, is_end=True),
        crawl=opts.crawl,
        kinds=MEDIA if opts.media else (PAGE,),
    )


def _words(text: str | None) -> list[str]:
    return [word.strip().lower() for word in (text or "").split(",") if word.strip()]


def _time(option: str, text: str | None, *, is_end: bool = False) -> datetime | None:
    """Reads a date or time, by default in UTC. A date that ends a period includes its day."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        is_date = len(text) == len("2026-02-03")
        if is_end and is_date:
            moment += timedelta(days=1, microseconds=-1)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{option}: {text!r} is not a time such as 2026-02-03 or 2026-02-03T12:00:00Z"
        ) from error


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
