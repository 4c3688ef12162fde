"""`scrapy deadletters`: the former name of `scrapy stuck --kind DEAD_LETTER`, with its former output."""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from webcrawl.commands import stuck
from webcrawl.errors import printable

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl


class Command(stuck.Command):
    """Lists dead letters alone."""

    noun = "dead letter"

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        opts.kind = "DEAD_LETTER"
        await opened.check_exists()
        await super().work(opened, args, opts)

    def line(self, row: dict[str, Any], *, as_json: bool) -> str:
        time = f"{row['updated'][:19]}Z"
        if as_json:
            queued = row["queued_at"] and datetime.fromisoformat(row["queued_at"]).timestamp()
            former = {name: row[name] for name in ("url", "reason")}
            return json.dumps({**former, "time": time, "attempts": row["attempts"], "queued_at": queued})
        failed = f"{row['attempts']} failed before" if row["attempts"] else "the first attempt"
        return printable(f"{time}  {row['url']}  {row['reason']} ({failed})")
