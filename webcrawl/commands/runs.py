"""`scrapy runs`: lists and checks the sealed runs of the index of duplicates, or drops one."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import OpenedCrawlCommand, exclusive, flag, option, table
from webcrawl.documents.values import counted
from webcrawl.errors import StoreError

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl
    from webcrawl.stores.sealed.run_list import SealedDuplicates


class Command(OpenedCrawlCommand):
    """Works also while the crawl runs: workers read the list every few seconds."""

    summary = "List sealed runs of duplicates, or drop one"
    description = (
        "List the sealed runs of the index of duplicates, the oldest first. Dropping a run that is damaged or lost "
        "lets sealing go on. Copies of its texts and payloads are no longer recognized, and a text of an older run "
        "that was replaced by one of this run is compared again. Its files are deleted a week later"
    )
    options = (
        exclusive(
            flag("--verify", "read all tables and names of each run; the exit status is 1 if any is damaged"),
            option("--drop", "take this run out of the list", metavar="RUN"),
        ),
        flag("--json", "print JSON lines"),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        if args:
            raise UsageError("scrapy runs has only options")
        if opts.drop and opts.json:
            raise UsageError("--drop prints no JSON")
        await opened.check_exists()
        sealed = opened.connection.sealed
        if sealed is None:
            raise StoreError("FRONTIER_SPILL_URI is empty, so the index of duplicates has no sealed runs")
        if opts.drop:
            _, texts, payloads = await sealed.drop(opts.drop)
            print(
                f"Dropped, with {counted(texts, 'text')} and {counted(payloads, 'payload')} of which copies are no "
                "longer recognized."
            )
            return
        await self._list(sealed, opts)

    async def _list(self, sealed: SealedDuplicates, opts: argparse.Namespace) -> None:
        listed, _ = await sealed.listed()
        rows = []
        for name, texts, payloads in listed.runs:
            row: dict[str, str | int] = {"run": name, "texts": texts, "payloads": payloads}
            if opts.verify:
                row["state"] = await _state(sealed, name)
                if row["state"] != "sound":
                    self.exitcode = 1
            rows.append(row)
        if opts.json:
            for row in rows:
                print(json.dumps(row))
        elif rows:
            heads = list(rows[0])
            for line in table(heads, [list(row.values()) for row in rows], right=("texts", "payloads")):
                print(line)
        print(f"{counted(len(rows), 'run')}.", file=sys.stderr)


async def _state(sealed: SealedDuplicates, name: str) -> str:
    """Returns "sound", or what is wrong with a run."""
    try:
        [run] = await sealed.verified([name])
        await asyncio.to_thread(run.verify_names)
    except StoreError as error:
        return str(error)
    return "sound"
