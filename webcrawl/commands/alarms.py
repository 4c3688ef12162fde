"""`scrapy alarms`: lists notifications, sends a test, sends unsent notifications, or watches crawls."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from webcrawl.config import read
from webcrawl.crawler.command import OpenedCrawlCommand, exclusive, flag, option
from webcrawl.documents.values import counted, shown_time
from webcrawl.errors import ConfigurationError, printable

if TYPE_CHECKING:
    from webcrawl.alarms.outbox import Stored
    from webcrawl.alarms.watcher import Post
    from webcrawl.opened import OpenedCrawl


class Command(OpenedCrawlCommand):
    """Reads the metadata database; only --watch needs the engine."""

    needs_engine = False
    usage = "[options]"
    summary = "List, test, send or watch for notifications of crawls"
    options = (
        exclusive(
            flag("--test", "send a test to each target of NOTIFY now"),
            flag("--send", "send again now what could not be sent"),
            flag("--watch", "watch the crawls of the engine, or one, until Ctrl-C"),
        ),
        flag("--unsent", "list only what was not sent"),
        option("--limit", "the most notifications to list, by default 50", type=int, default=50),
        flag("--json", "print JSON lines"),
    )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        self.needs_engine = opts.watch
        if (args or opts.crawl) and (opts.test or opts.send):
            raise UsageError("--test and --send are not about one crawl", print_help=False)
        super().run(args, opts)

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.alarms.outbox import Outbox

        if opts.test or opts.send or opts.watch:
            post = self._post(opened)
            if opts.test:
                self.exitcode = await _test(post)
            elif opts.send:
                self.exitcode = await asyncio.to_thread(_send, post)
            else:
                await self._watch(opened, post, opts.crawl or (args[0] if args else None))
            return
        with Outbox(opened.stores.metadata) as outbox:
            crawl = opts.crawl or (args[0] if args else None)
            notices = list(outbox.notices(max(1, opts.limit), crawl=crawl, unsent=opts.unsent))
        for stored in notices:
            print(json.dumps(_fields(stored)) if opts.json else _line(stored))
        print(f"{counted(len(notices), 'notification')}.", file=sys.stderr)

    def _post(self, opened: OpenedCrawl) -> Post:
        """Opens the outbox and the targets; raises ConfigurationError."""
        from webcrawl.alarms.watcher import Post

        if not (urls := read(self.settings, "NOTIFY")):
            raise ConfigurationError(
                "NOTIFY is empty: set it to a list of Apprise URLs (docs/guide/alarms.md)"
            )
        return Post(opened.stores.metadata, urls)

    async def _watch(self, opened: OpenedCrawl, post: Post, only: str | None) -> None:
        from webcrawl.alarms.all_crawls import AllCrawls
        from webcrawl.alarms.watcher import About

        dashboard, connection = read(self.settings, "DASHBOARD_URL"), opened.connection
        ending, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ending.set)
        print(f"Watching {f'crawl {only!r}' if only else 'all crawls'} of {connection.server}.", flush=True)
        crawls = AllCrawls(
            connection.frontier, connection.crawl, post, lambda name: About.of(name, dashboard), only=only
        )
        await crawls.run(ending)
        await post.close(15.0)


async def _test(post: Post) -> int:
    """Sends a test notice to each target and prints the results; returns the exit status."""
    from webcrawl.alarms.outbox import Notice, utc_now

    text = "This is a test: notifications of crawls will look like this."
    notice = Notice("test", "TEST", "webcrawl: a test", text, utc_now())
    status = 0
    for target in post.targets.ids:
        error = await asyncio.to_thread(post.targets.send, target, notice)
        print(printable(f"{target}: {f'failed: {error}' if error else 'sent'}"), flush=True)
        status = 1 if error else status
    return status


def _send(post: Post) -> int:
    """Sends unsent notifications without waiting for their pauses; returns the exit status."""
    from webcrawl.alarms.outbox import utc_now
    from webcrawl.alarms.targets import deliver

    post.outbox.retry(utc_now())
    deliver(post.outbox, post.targets)
    left = post.outbox.notices(1000, unsent=True)
    for stored in left:
        print(_line(stored))
    print(f"{counted(len(left), 'notification')} not sent." if left else "All notifications are sent.")
    return 1 if left else 0


def _fields(stored: Stored) -> dict[str, Any]:
    notice = stored.notice
    return {
        "id": stored.id,
        **{name: getattr(notice, name) for name in ("kind", "crawl", "job", "title", "text", "link")},
        "created": notice.created.isoformat(),
        "sent": stored.sent and stored.sent.isoformat(),
        "due": stored.due and stored.due.isoformat(),
        "attempts": stored.attempts,
        "error": stored.error,
        "targets": list(stored.targets or ()),
    }


def _line(stored: Stored) -> str:
    notice = stored.notice
    if stored.sent:
        state = "sent"
    elif stored.error:
        state = f"not sent after {counted(stored.attempts, 'attempt')}: {stored.error}"
    else:
        state = "not sent yet"
    return printable(f"{shown_time(notice.created)}  {notice.kind:<8}  {notice.title} ({state})")
