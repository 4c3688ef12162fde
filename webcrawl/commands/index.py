"""`scrapy index`: makes or updates the index, or writes its documents for another search engine."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, ClassVar

from scrapy.exceptions import UsageError

from webcrawl.commands import search
from webcrawl.crawler.command import CommandOption, option
from webcrawl.documents.values import counted
from webcrawl.errors import printable

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl

_ENGINES = ("opensearch", "quickwit")


class Command(search.Command):
    """Makes or updates the index, and searches nothing."""

    usage = "[options]"
    summary = "Make or update the index of stored pages"
    description = (
        "Make the index that `scrapy search` reads, or bring it up to date, as `scrapy search --update` does; or write "
        "its documents for another search engine"
    )
    options: ClassVar[tuple[CommandOption, ...]] = (
        *search.Command.options,
        option(
            "--to",
            "write bodies for the bulk interface of this engine, and the index to create there, into the folder of -o",
            choices=_ENGINES,
        ),
        option(
            "-o --output", "with --to, an empty folder, or URI of an object store such as s3://bucket/prefix"
        ),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        if args:
            raise UsageError("scrapy index takes no arguments")
        if bool(opts.to) != bool(opts.output):
            raise UsageError("--to and -o go together: --to opensearch -o folder")
        if opts.to:
            await self._write_bodies(opened, opts)
            return
        opts.update = True
        await super().work(opened, args, opts)

    async def _write_bodies(self, opened: OpenedCrawl, opts: argparse.Namespace) -> None:
        from webcrawl.crawler.pages.indexing import write_bodies
        from webcrawl.search.bulk import ENGINES
        from webcrawl.stores.objects.store import location, open_store

        store = open_store(location(opts.output), "--output", opened.stores.object_stores)
        engine = ENGINES[opts.to]()
        export = await write_bodies(opened, self.settings, store, engine, search.IndexProgress())
        self.exitcode = int(export.is_stopped)
        for problem in (*export.figures.problems, *filter(None, [export.problem])):
            print(printable(problem), file=sys.stderr)
        if export.is_stopped:
            print(f"Stopped: {store.uri()} is incomplete.", file=sys.stderr)
        else:
            print(f"Wrote {counted(export.figures.pages, 'document')} to {store.uri()}")
