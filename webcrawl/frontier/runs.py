"""The latest run of a crawl, and why the last run ended, for people who look at the crawl."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_call
from webcrawl.frontier.crawl import Crawl


@dataclass(frozen=True, slots=True)
class CrawlRun:
    """One run of a crawl: its spider, when it began (seconds since 1970), and its settings as text without secrets."""

    spider: str
    began: float
    settings: dict[str, str]


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one crawl, of which the engine keeps the latest."""

    engine: Engine
    keys: Keys

    async def begin(self, run: CrawlRun) -> None:
        """Stores a run that begins."""
        await self.engine.change(self.keys.own("run"), "SET", json.dumps(asdict(run)))

    async def latest(self) -> CrawlRun | None:
        """Returns the latest run; None if there was none."""
        text = await self.engine.client.get(self.keys.own("run"))
        return None if text is None else CrawlRun(**json.loads(text))


async def note_end(crawl: Crawl, reason: str) -> None:
    """Stores why a run of a worker ended, as in summary.json, even if the engine is full."""
    await crawl.engine.run(script_call("note_end", [crawl.keys.own("info")], reason=reason))


async def last_end(crawl: Crawl) -> str | None:
    """Returns why the last run of a worker ended; None if none has ended."""
    reason = await crawl.engine.client.hget(crawl.keys.own("info"), "ended")
    return None if reason is None else str(reason.decode())
