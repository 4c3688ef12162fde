"""The overview of a crawl: its state, figures and workers, and what `scrapy status --json` and the API say of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from webcrawl.engine.keys import CRAWLS
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.figures import CrawlFigures, figures
from webcrawl.frontier.history import FigureSample, History
from webcrawl.frontier.ledger import Ledger
from webcrawl.frontier.sunk_patterns import sunk_patterns
from webcrawl.frontier.workers import AllVitals, Vitals
from webcrawl.opened import Connection

_IDLE_SECONDS = 60.0
"""The seconds for which the figures of a crawl without workers are cached."""


@dataclass(frozen=True)
class Overview:
    """A crawl at a moment. `state`: running, holding, paused, stopped, finished, or empty."""

    crawl: str
    state: str
    figures: CrawlFigures
    vitals: dict[str, Vitals | None]
    """The latest vitals of live workers, by worker."""
    checks: float = 0.0
    """The repeated visits per second of all workers."""

    @property
    def speed(self) -> float:
        """The pages per second of all workers."""
        return sum(vitals.speed for vitals in self.vitals.values() if vitals)

    @property
    def http_errors(self) -> int:
        """The number of responses with a status of 400 or above."""
        return self.now.errors

    @property
    def duplicates(self) -> int:
        return self.figures.exact_duplicates + self.figures.near_duplicates

    @property
    def now(self) -> FigureSample:
        """The figures as the newest point of the plots."""
        return FigureSample.of(self.figures, time.time())

    @property
    def is_alive(self) -> bool:
        return bool(self.vitals)


async def overview(crawl: Crawl, frontier: Frontier) -> Overview:
    """Reads the overview of a crawl, with a few lookups in each shard."""
    now, alive = await asyncio.gather(figures(frontier, crawl), crawl.workers.alive())
    vitals = await AllVitals(crawl.engine, crawl.keys).of(alive)
    is_checking = alive and now.checked
    checks = await History(crawl.engine, crawl.keys).checks_per_second() if is_checking else 0.0
    return Overview(
        crawl.keys.crawl, _state(now, bool(alive)), now, {name: vitals.get(name) for name in alive}, checks
    )


class Overviews:
    """Reads the overviews of all crawls of an engine; of crawls without workers once a minute."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._idle: dict[str, tuple[float, Overview]] = {}

    async def all(self) -> list[Overview]:
        """Returns the overviews, in no order."""
        engine, keys = self._connection.engine, self._connection.keys
        layouts = await engine.client.hgetall(CRAWLS)
        known = [replace(keys, crawl=name.decode()).with_layout(layout) for name, layout in layouts.items()]
        overviews = [
            await self._read(replace(self._connection.crawl, keys=keys_of_crawl)) for keys_of_crawl in known
        ]
        self._idle = {
            overview.crawl: self._idle[overview.crawl]
            for overview in overviews
            if overview.crawl in self._idle
        }
        return overviews

    async def _read(self, crawl: Crawl) -> Overview:
        name = crawl.keys.crawl
        read, known = self._idle.pop(name, (0.0, None))
        if known and time.monotonic() - read < _IDLE_SECONDS and not await crawl.workers.names():
            self._idle[name] = read, known
            return known
        now = await overview(crawl, replace(self._connection.frontier, keys=crawl.keys))
        if not now.is_alive:
            self._idle[name] = time.monotonic(), now
        return now


def _state(now: CrawlFigures, alive: bool) -> str:
    if now.paused and (alive or now.queued):
        return "paused"
    if alive:
        return "holding" if now.holding else "running"
    if now.left:
        return "stopped"
    return "finished" if now.seen_urls or now.pages else "empty"


async def crawl_report(connection: Connection, most: int = 10) -> dict[str, Any]:
    """Returns state and figures of a crawl, and its `most` busiest hosts, sunk patterns and owners over budget."""
    now = await overview(connection.crawl, connection.frontier)
    report: dict[str, Any] = {"crawl": now.crawl, "state": now.state, **now.figures.as_dict()}
    report["busiest_hosts"] = [asdict(host) for host in await connection.frontier.hosts(most)]
    report["sunk_patterns"] = asdict(await sunk_patterns(connection.frontier, most))
    over = await Ledger(connection.engine, connection.keys).over(most)
    report["over_budget"] = asdict(over) | {
        "worst": [(owner.owner, owner.hosts, str(owner.spending)) for owner in over.worst]
    }
    return report
