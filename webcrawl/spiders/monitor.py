"""`scrapy crawl monitor`: reports what has changed on a site since the last run."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.config.private_files import readable_outside
from webcrawl.crawler.session import Session
from webcrawl.errors import ConfigurationError, EngineUnavailable
from webcrawl.spiders.base import BroadSpider

_DECIDING = (
    "AI_OPT_OUTS",
    "ALLOWED_DOMAINS",
    "DENIED_DOMAINS",
    "DEPTH_LIMIT",
    "DOCUMENT_MAXSIZE",
    "DOWNLOAD_HANDLERS",
    "LINK_RULES",
    "OFFSITE_HOPS",
    "PATH_ASCENDING",
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
    """The state that a run leaves for the next: the times of runs, and digests of the settings that chose the pages."""

    finished: list[tuple[datetime, datetime]]
    watched: datetime | None
    digests: dict[str, str]


class Monitor(BroadSpider):
    """Crawls the site again with each run over the same DATA_DIR, with conditional requests for known pages.

    At the end it prints new, gone and changed pages with the lines that differ, and writes them to `report`, by default
    DATA_DIR/monitor.jsonl. Arguments: those of BroadSpider, `report`. It supports a single worker only.
    """

    name = "monitor"
    custom_settings = {"SCHEDULER_FLUSH_ON_START": True, "REVISIT": True, "DUST": False}

    def __init__(self, *args: Any, report: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.report = report
        self.began = datetime.now(UTC)

    @property
    def _folder(self) -> Path:
        return Session.of(self.crawler).stores.data_dir

    @property
    def _state_file(self) -> Path:
        # in the DATA_DIR of a job's iteration it is a link to the file that the iterations share
        return (self._folder / "monitor.json").resolve()

    async def closed(self, reason: str) -> None:
        if reason in ("cannot_start", "no_seeds"):
            return
        if reason != "finished":
            # pages that were not reached are not gone
            print("The crawl was not finished. Run it again to compare it with the run before.", flush=True)
            return
        with self.making("report"):
            lost, cut = await self._lost()
            await asyncio.to_thread(self._report, lost, cut)

    async def _lost(self) -> tuple[list[str] | None, bool]:
        """Returns the dead letters of this run, and whether it found links beyond DEPTH_LIMIT.

        The dead letters are None if they are unknown, or if URLs of blocked or limited hosts are still queued.
        """
        connection = Session.of(self.crawler).connection

        async def read() -> tuple[list[str] | None, bool]:
            counts = await connection.frontier.counts()
            lost = [letter.url async for letter in connection.frontier.dead_letters()]
            totals = await connection.crawl.totals()
            are_all = not counts.queued and counts.dead <= len(lost)
            return lost if are_all else None, totals.get("too_deep", 0) > 0

        try:
            return await connection.retry_until_available(read)
        except EngineUnavailable:
            return None, False

    def _report(self, lost: list[str] | None, cut: bool) -> None:
        # slow to import, and every command imports the spiders
        from webcrawl.results.monitor import ChangeReport, MonitorRun, changes, doubt_of, unlinked, write
        from webcrawl.results.versions import Versions

        session, past = Session.of(self.crawler), self._past()
        path = Path(self.report or self._folder / "monitor.jsonl")
        counts = ChangeReport()
        unfinished = path.with_name(f".{path.name}.unfinished")
        with readable_outside(self._folder, path):
            unfinished.touch()
        differing = self._differing(past.digests)
        run = MonitorRun(self.began, self.scope.allows, past.finished, past.watched, lost, cut, differing)
        with Versions(session.stores, session.fetch) as stored, unfinished.open("w") as file:
            doubt, links = doubt_of(stored, run), self.stored_links()
            missing = unlinked(stored, run, links) if links else {}
            for change in changes(stored, run, doubt, missing):
                file.writelines(line + "\n" for line in write([change]))
                lines = counts.lines(change)
                if run.last is not None:
                    print(*lines, sep="\n", end="\n" if lines else "")
        unfinished.replace(path)
        finished = [*past.finished, (self.began, datetime.now(UTC))]
        self._remember(_Past(finished, run.watched_next(doubt), self._digests()))
        since = "the first run" if run.last is None else f"since {run.last:%Y-%m-%d %H:%M:%S} UTC"
        print(f"Pages, {since}: {counts.total}.", flush=True)

    def _past(self) -> _Past:
        """Returns the state of earlier runs; raises ConfigurationError for another program's file."""
        path = self._state_file
        try:
            stored = json.loads(path.read_text())
            runs = [(_moment(began), _moment(ended)) for began, ended in stored["finished"]]
            return _Past(runs, _moment(stored["watched"]), dict(stored.get("told", {})))
        except FileNotFoundError:
            return _Past([], None, {})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigurationError(f"{path} was not written by `monitor`: {error}") from error

    def _digests(self) -> dict[str, str]:
        """Returns by name the digests of the settings and arguments that decide which pages a run visits."""
        values = {name: _plain(self.settings.get(name)) for name in _DECIDING}
        values |= {"seeds": sorted(self.seed_urls()), "scope": self.scope.kind}
        return {name: hashlib.sha256(repr(value).encode()).hexdigest()[:16] for name, value in values.items()}

    def _differing(self, others: Mapping[str, str]) -> list[str]:
        """Returns the names whose digests differ from those of another run; a missing digest counts as equal."""
        return [name for name, value in self._digests().items() if others.get(name, value) != value]

    def _remember(self, past: _Past) -> None:
        values = {"finished": past.finished, "watched": past.watched, "told": past.digests}
        path = self._state_file
        unfinished = path.with_name(".monitor.json.unfinished")
        unfinished.write_text(json.dumps(values, default=datetime.isoformat))
        unfinished.replace(path)


def _plain(value: Any) -> Any:
    """Returns the value of a setting in sorted order, so that equal values have equal texts."""
    return sorted((str(key), part) for key, part in value.items()) if isinstance(value, Mapping) else value
