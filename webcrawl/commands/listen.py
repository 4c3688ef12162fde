"""`scrapy listen`: finished pages of a crawl as they come, as JSON lines."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import SessionCommand, check_crawl
from webcrawl.documents.values import shown

if TYPE_CHECKING:
    from webcrawl.crawler.session import Session
    from webcrawl.stores.listeners import Listener


class Command(SessionCommand):
    """Reads the engine, whichever machine the workers run on."""

    def syntax(self) -> str:
        return "[options] [crawl id, default: CRAWL_ID or broad]"

    def short_desc(self) -> str:
        return "Print every finished page of a crawl as a JSON line, as they come"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--group",
            help="read as one of a group, which goes on where its readers stopped, however they did",
        )
        parser.add_argument(
            "--reader", help="name in the group, of one process at a time; default: host name and process"
        )
        parser.add_argument(
            "--from-start", action="store_true", help="begin with the oldest page that is kept"
        )
        parser.add_argument("--count", type=int, help="end after so many pages")
        parser.add_argument("--once", action="store_true", help="end when no page is left to be read")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        with suppress(KeyboardInterrupt):  # the usual end
            super().run(args, opts)

    async def work(self, session: Session, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.stores.listeners import Listener

        if opts.reader and not opts.group:
            raise UsageError("--reader is a name in a --group")
        if opts.count is not None and opts.count < 1:
            raise UsageError("--count must be at least 1")
        await check_crawl(session)
        listener = Listener(
            session.connection.engine,
            session.connection.keys,
            group=opts.group,
            reader=opts.reader or f"{socket.gethostname()}:{os.getpid()}",
            from_start=opts.from_start or bool(opts.group),
        )
        if not await session.connection.engine.client.exists(session.connection.keys.own("pages")):
            print("Nothing is published yet: the crawl needs LISTENERS_MAXLEN.", file=sys.stderr)
        async for pages in listener.pages(forever=not opts.once, most=opts.count):
            _tell_missed(listener)
            for page in pages:
                print(shown(json.dumps(page.row, ensure_ascii=False)))
            # only what has left this process is done
            sys.stdout.flush()
            await listener.done(pages)
        _tell_missed(listener)


def _tell_missed(listener: Listener) -> None:
    if missed := listener.missed():
        print(f"About {missed} pages came faster than they were read, and are gone.", file=sys.stderr)
