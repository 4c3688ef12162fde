"""Lets a worker join its crawl in the engine: begins or resumes the crawl, and stores the run that begins."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from webcrawl.config import FrontierConfig
from webcrawl.config.passwords import shown_settings, without_passwords
from webcrawl.config.setting import Settings
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import EngineUnavailable
from webcrawl.frontier.crawl import CrawlRun, Runs
from webcrawl.hosts.turns import Turns
from webcrawl.opened import Connection
from webcrawl.worker.rule_changes import review_rules

_MOST_SEEDS = 20
"""The most seeds of a run that the engine keeps, for people who look at the crawl."""


@dataclass(frozen=True, slots=True)
class JoinedCrawl:
    """The state of a crawl when this process joined it."""

    has_urls: bool = False
    """Whether URLs had been added before."""
    resumed: bool = False
    """Whether the crawl had URLs, and no worker was alive."""
    finished: bool = False
    """Whether the crawl was resumed, and nothing was left to crawl."""
    paused: bool = False
    """Whether an operator had paused the crawl."""


async def join(connection: Connection, config: FrontierConfig, turns: Turns) -> JoinedCrawl:
    """Connects, and begins or resumes the crawl.

    Raises ConfigurationError if the crawl was begun with other settings, EngineUnavailable, EngineError.
    """
    await connection.connect(to_crawl=True)
    try:
        return await connection.engine.retry_until_available(lambda: _join(connection, config, turns))
    except UNAVAILABLE as error:
        raise EngineUnavailable(f"the engine became unavailable while the crawl began: {error}") from error


async def note_run(connection: Connection, spider: str, settings: Settings) -> None:
    """Stores the run that begins, for people who look at the crawl; does nothing while the engine is unavailable."""
    with suppress(*UNAVAILABLE):
        run = CrawlRun(spider, time.time(), shown_settings(settings))
        await Runs(connection.engine, connection.keys).begin(run)


async def note_seeds(connection: Connection, seeds: Sequence[str], scope: str) -> None:
    """Adds the seeds and their scope to the run; does nothing while the engine is unavailable."""
    with suppress(*UNAVAILABLE):
        runs = Runs(connection.engine, connection.keys)
        if run := await runs.latest():
            shown = [without_passwords(seed) for seed in seeds[:_MOST_SEEDS]]
            await runs.begin(replace(run, seeds=shown, seed_count=len(seeds), scope=scope))


async def _join(connection: Connection, config: FrontierConfig, turns: Turns) -> JoinedCrawl:
    crawl, frontier = connection.crawl, connection.frontier
    if config.flush_on_start:
        await connection.clear()
    await crawl.begin()
    await connection.begin_tails()
    await _review_limits(connection, turns)
    if connection.server.is_exclusive:
        # no other process uses this engine, so all its workers are dead, and so are their leases
        await crawl.workers.forget()
        await frontier.reap(everything=True, delay=turns.config.delay)
        connection.server.admit_others()
    counts = await frontier.counts()
    has_urls = counts.added > 0
    resumed = has_urls and not await crawl.workers.names()
    return JoinedCrawl(has_urls, resumed, finished=resumed and not counts.open, paused=await crawl.paused())


async def _review_limits(connection: Connection, turns: Turns) -> None:
    """Checks hosts with spent budgets again if their limits, or the rules that limit pages, have changed."""
    frontier, rules = connection.frontier, turns.rules
    if await connection.crawl.limits_changed(frontier.host_limits, rules.limits_pages if rules else ""):
        pages_of = rules.max_pages if rules else lambda _: None
        await review_rules(frontier, pages_of, range(connection.keys.shards))
        await frontier.review()
