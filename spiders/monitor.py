"""`scrapy crawl monitor`: tells what has changed on a site since it ran last."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from spiders.base import BroadSpider
from webcrawl.crawler.session import Session
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import ConfigurationError

_DECIDING = (
    "DEPTH_LIMIT",
    "DOCUMENT_MAXSIZE",
    "DOWNLOAD_HANDLERS",
    "ROBOTSTXT_OBEY",
    "ROBOTS_META_OBEY",
    "TEXT_LINKS",
    "URLLENGTH_LIMIT",
    "URL_ALLOW",
    "URL_DENY",
    "URL_DENY_EXTENSIONS",
    "URL_FILTERS",
    "URL_IGNORED_PARAMETERS",
)

_moment = datetime.fromisoformat


class _Past(NamedTuple):
    """What a run leaves for the next one: what its `Run` has to know, and digests of what it was told to visit."""

    finished: list[tuple[datetime, datetime]]
    watched: datetime | None
    told: dict[str, str]


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
            lost, cut = await self._lost()
            await asyncio.to_thread(self._report, lost, cut)

    async def _lost(self) -> tuple[list[str] | None, bool]:
        """The URLs that this run gave up; None when others wait, of hosts that are blocked or at their limit.

        And whether it came upon links beyond DEPTH_LIMIT.
        """
        session = Session.of(self.crawler)
        try:
            counts = await session.connection.frontier.counts()
            lost = [letter.url async for letter in session.connection.frontier.dead_letters()]
            totals = await session.connection.crawl.totals()
        except UNAVAILABLE:
            return None, False
        return None if counts.queued or counts.dead > len(lost) else lost, totals.get("too_deep", 0) > 0

    def _report(self, lost: list[str] | None, cut: bool) -> None:
        # what reads databases is slow to import, and a spider is imported by every command
        from webcrawl.results.monitor import Run, Told, changes, doubt_of, write
        from webcrawl.results.versions import Versions

        session, past = Session.of(self.crawler), self._past()
        path = Path(self.report or self._folder / "monitor.jsonl")
        told = Told()
        unfinished = path.with_name(f".{path.name}.unfinished")
        differing = self._differing(past.told)
        run = Run(self.began, self.scope.allows, past.finished, past.watched, lost, cut, differing)
        with Versions(session.stores, session.fetch) as stored, unfinished.open("w") as file:
            doubt = doubt_of(stored, run)
            for change in changes(stored, run, doubt):
                file.writelines(line + "\n" for line in write([change]))
                lines = told.lines(change)
                if run.last is not None:
                    print(*lines, sep="\n", end="\n" if lines else "")
        unfinished.replace(path)
        finished = [*past.finished, (self.began, datetime.now(UTC))]
        self._remember(_Past(finished, run.watched_next(doubt), self._told()))
        since = "the first run" if run.last is None else f"since {run.last:%Y-%m-%d %H:%M:%S} UTC"
        print(f"Pages, {since}: {told.total}.", flush=True)

    def _past(self) -> _Past:
        """What the runs before left; raises ConfigurationError for a file that is not ours."""
        path = self._folder / "monitor.json"
        try:
            found = json.loads(path.read_text())
            if last := found.get("last"):  # as an older monitor wrote it
                found |= {"finished": [(last, self.began.isoformat())], "watched": last}
            runs = [(_moment(began), _moment(ended)) for began, ended in found["finished"]]
            return _Past(runs, _moment(found["watched"]), dict(found.get("told", {})))
        except FileNotFoundError:
            return _Past([], None, {})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigurationError(f"{path} is none that monitor wrote: {error}") from error

    def _told(self) -> dict[str, str]:
        """Digests of whatever decides which pages a run visits, by their names."""
        told = {name: _plain(self.settings.get(name)) for name in _DECIDING}
        told |= {"seeds": sorted(self._good_seeds()), "scope": self.scope.kind}
        return {name: hashlib.sha256(repr(value).encode()).hexdigest()[:16] for name, value in told.items()}

    def _differing(self, others: Mapping[str, str]) -> list[str]:
        """Of what decides it, what was something else in another run; what that did not tell was the same."""
        return [name for name, value in self._told().items() if others.get(name, value) != value]

    def _remember(self, past: _Past) -> None:
        path = self._folder / "monitor.json"
        unfinished = path.with_name(".monitor.json.unfinished")
        unfinished.write_text(json.dumps(past._asdict(), default=datetime.isoformat))
        unfinished.replace(path)


def _plain(value: Any) -> Any:
    """A setting's value in a form that tells equal ones by their text."""
    return sorted((str(key), one) for key, one in value.items()) if isinstance(value, Mapping) else value
