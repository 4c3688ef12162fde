"""`scrapy crawl monitor`: tells what has changed on a site since it ran last."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spiders.base import BroadSpider
from webcrawl.engine import AWAY
from webcrawl.errors import ConfigurationError
from webcrawl.session import Session


class Monitor(BroadSpider):
    """Crawls anew whenever it is run, over the same DATA_DIR, and asks for what it knows only if it has changed.

    At the end it prints what is new, gone and changed, with the lines that differ, and writes it to `report`, by
    default DATA_DIR/monitor.jsonl. Arguments: those of BroadSpider, `report`. It is for a single worker.
    """

    name = "monitor"
    custom_settings = {"SCHEDULER_FLUSH_ON_START": True, "REVISIT": True}

    def __init__(self, *args: Any, report: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.report = report
        self.began = datetime.now(UTC)

    @property
    def _folder(self) -> Path:
        return Session.of(self.crawler).stores.data_dir

    async def closed(self, reason: str) -> None:
        if reason in ("cannot_start", "no_seeds"):
            return
        if reason != "finished":
            # what was not reached is not gone
            print("The crawl was not finished: it is compared with the run before when it is.", flush=True)
            return
        with self.making("report"):
            self._report(await self._lost())

    async def _lost(self) -> list[str] | None:
        """The URLs that this run gave up; None when others wait, of hosts that are blocked or at their limit."""
        session = Session.of(self.crawler)
        try:
            counts = await session.frontier.counts()
            lost = [letter.url async for letter in session.frontier.dead_letters()]
        except AWAY:
            return None
        return None if counts.queued or counts.dead > len(lost) else lost

    def _report(self, lost: list[str] | None) -> None:
        # what reads databases is slow to import, and a spider is imported by every command
        from webcrawl.monitor import Told, changes, write
        from webcrawl.stored import StoredPages

        session, last = Session.of(self.crawler), self._last()
        path = Path(self.report or self._folder / "monitor.jsonl")
        told = Told()
        unfinished = path.with_name(f".{path.name}.unfinished")
        with StoredPages(session.stores, session.fetch) as stored, unfinished.open("w") as file:
            for change in changes(stored, self.began, last, self.scope.allows, lost):
                file.writelines(line + "\n" for line in write([change]))
                lines = told.lines(change)
                if last is not None:
                    print(*lines, sep="\n", end="\n" if lines else "")
        unfinished.replace(path)
        self._remember()
        since = "the first run" if last is None else f"since {last:%Y-%m-%d %H:%M:%S} UTC"
        print(f"Pages, {since}: {told.total}.", flush=True)

    def _last(self) -> datetime | None:
        """When the last run began that was finished; raises ConfigurationError for a file that is not ours."""
        path = self._folder / "monitor.json"
        try:
            return datetime.fromisoformat(json.loads(path.read_text())["last"])
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigurationError(f"{path} is none that monitor wrote: {error}") from error

    def _remember(self) -> None:
        path = self._folder / "monitor.json"
        unfinished = path.with_name(".monitor.json.unfinished")
        unfinished.write_text(json.dumps({"last": self.began.isoformat()}))
        unfinished.replace(path)
