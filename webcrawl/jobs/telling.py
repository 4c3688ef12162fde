"""Tells the people of a job about iterations that failed. Those that end well are told by their own workers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import select

from webcrawl.alarms.delivery import deliver
from webcrawl.alarms.outbox import Notice, Outbox
from webcrawl.alarms.targets import Targets
from webcrawl.documents.values import counted
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.records import Iteration, State
from webcrawl.jobs.store import JobStore, read_iteration
from webcrawl.jobs.tables import iterations

_LATELY = timedelta(days=1)


class Telling:
    """Puts a notice of each failure into the outbox of the jobs' database, once, and sends what is in it."""

    def __init__(self, store: JobStore, uri: str) -> None:
        self._store = store
        self._uri = uri

    async def tell(self, now: datetime) -> None:
        """Tells what is new; raises StoreError, and ConfigurationError for an URL that Apprise cannot use."""
        definitions = [Definition.of(job.definition) for job in self._store.jobs()]
        told = {one.name: one.notify for one in definitions if one.notify}
        if told:
            await asyncio.to_thread(self._tell, told, now)

    def _tell(self, told: Mapping[str, Sequence[str]], now: datetime) -> None:
        with Outbox(self._uri) as outbox:
            targets = {name: Targets(urls) for name, urls in told.items()}
            for one in self._failures(now):
                if one.job in targets:
                    outbox.put(_notice(one, now), targets[one.job].ids)
            for each in targets.values():
                deliver(outbox, each, clock=lambda: now)

    def _failures(self, now: datetime) -> list[Iteration]:
        lately = (iterations.c.state == State.FAILED, iterations.c.ended > now - _LATELY)
        with self._store.database.reading() as connection:
            return [read_iteration(row) for row in connection.execute(select(iterations).where(*lately))]


def _notice(one: Iteration, now: datetime) -> Notice:
    numbers = f"{counted(one.processed, 'page')} processed, {counted(one.queued, 'URL')} left"
    lines = [
        f"Reason: {one.reason}",
        f"Crawl {one.crawl}: {numbers}.",
        f"Run it again: scrapy jobs run {one.job}",
    ]
    title = f"{one.job}: iteration {one.number} failed"
    return Notice(f"{one.crawl} FAILED", "FAILED", title, "\n".join(lines), now, one.crawl, one.job)
