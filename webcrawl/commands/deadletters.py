"""`scrapy deadletters`: lists URLs that failed permanently, with reasons, or queues them again."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from webcrawl.crawler.command import OpenedCrawlCommand, exclusive, flag, option
from webcrawl.documents.values import counted, printable
from webcrawl.opened import host_named

if TYPE_CHECKING:
    from webcrawl.frontier import DeadLetter
    from webcrawl.frontier.dead_letters import CrawlDeadLetters
    from webcrawl.opened import OpenedCrawl


class Command(OpenedCrawlCommand):
    """Prints each dead letter when it is read, so that memory is bounded; prints the total to stderr."""

    summary = "List URLs that failed for good, or queue them again"
    options = (
        option("--host", "only those of one host, such as https://example.org", metavar="URL"),
        option("--reason", "only those whose reason contains TEXT", default="", metavar="TEXT"),
        exclusive(
            flag("--requeue", "queue them again, with no attempts counted"),
            flag("--json", "print JSON lines"),
        ),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        host = host_named(opts.host) if opts.host else None
        await opened.check_exists()
        if opts.requeue:
            queued = await _letters(opened).requeue(host, opts.reason)
            print(
                f"{counted(queued, 'dead letter')} queued again."
                + (" They need a running worker." if queued else "")
            )
            return
        listed = 0
        async for letter in _letters(opened).letters(host, opts.reason):
            listed += 1
            print(_json(letter) if opts.json else _line(letter))
        print(f"{counted(listed, 'dead letter')}.", file=sys.stderr)


def _letters(opened: OpenedCrawl) -> CrawlDeadLetters:
    from webcrawl.frontier.dead_letters import CrawlDeadLetters  # no other command needs what it imports

    return CrawlDeadLetters(opened.connection.frontier, opened.connection.tails)


def _json(letter: DeadLetter) -> str:
    return json.dumps({**dataclasses.asdict(letter), "time": _time(letter)})


def _line(letter: DeadLetter) -> str:
    failed = f"{letter.attempts} failed before" if letter.attempts else "the first attempt"
    return printable(f"{_time(letter)}  {letter.url}  {letter.reason} ({failed})")


def _time(letter: DeadLetter) -> str:
    return datetime.fromtimestamp(letter.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
