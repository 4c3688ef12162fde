"""Tells the people of a job what no worker of its crawls can: firings that were missed, skipped or replaced others, and
iterations that failed.

Also sends what crawls with a metadata database of their own could not send before they ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.engine import make_url

from webcrawl.alarms.delivery import deliver
from webcrawl.alarms.outbox import Notice, Outbox
from webcrawl.alarms.targets import Targets
from webcrawl.documents.values import counted
from webcrawl.errors import CrawlError
from webcrawl.jobs.claims import is_here
from webcrawl.jobs.crawls import Crawls
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.firing import ON_TIME
from webcrawl.jobs.overlaps import overlaps
from webcrawl.jobs.records import Iteration, State
from webcrawl.jobs.store import JobStore, read_iteration
from webcrawl.jobs.tables import iterations

logger = logging.getLogger(__name__)

_LATELY = timedelta(days=1)
_TRIED = timedelta(days=4)
"""For longer, nothing is tried to be sent."""


class Telling:
    """Puts notices into the outbox of the jobs' database, each once, and sends what is in it."""

    def __init__(self, store: JobStore, uri: str, crawls: Crawls, machine: str) -> None:
        self._store = store
        self._uri = uri
        self._crawls = crawls
        self._machine = machine
        self._sent: set[int] = set()
        """Iterations in whose own outbox nothing is left."""

    async def tell(self, now: datetime) -> None:
        """Tells what is new; raises StoreError. A job whose people cannot be told keeps no other from it."""
        await asyncio.to_thread(self._tell, now)

    def _tell(self, now: datetime) -> None:
        for job in self._store.jobs():
            try:
                definition = Definition.of(job.definition)
                if urls := self._crawls.told(definition):
                    self._tell_of(definition, Targets(urls), now)
            except CrawlError as error:
                logger.warning("Cannot tell the people of job %s: %s", job.name, error)

    def _tell_of(self, definition: Definition, targets: Targets, now: datetime) -> None:
        link = self._crawls.page_of(definition)
        name = definition.name
        since = now - _LATELY
        fired, ended = iterations.c.fired > since, iterations.c.ended > since
        lately = self._some(name, or_(fired, ended, iterations.c.ended.is_(None)))
        failed = [one for one in lately if one.state == State.FAILED and one.ended and one.ended > since]
        notices = [_failure(one, now, link) for one in failed]
        notices += [_missing(together, now, link) for together in _missed(lately, since)]
        with Outbox(self._uri) as outbox:
            for notice in (*notices, *overlaps(lately, now, link)):
                outbox.put(notice, targets.ids)
            deliver(outbox, targets, clock=lambda: now)
        self._send_left(definition, targets, now)

    def _send_left(self, definition: Definition, targets: Targets, now: datetime) -> None:
        """Sends what ended crawls of a job have left in databases of their own."""
        ended = (iterations.c.ended > now - _TRIED, iterations.c.deleted.is_(None))
        for one in self._some(definition.name, *ended, iterations.c.started.is_not(None)):
            if one.id in self._sent or not is_here(one, self._machine):
                continue
            uri = self._crawls.metadata(definition, one)
            if uri == self._uri or not _exists(uri):
                continue
            with Outbox(uri) as outbox:
                deliver(outbox, targets, clock=lambda: now)
                if not any(stored.due for stored in outbox.notices(unsent=True)):
                    self._sent.add(one.id)

    def _some(self, job: str, *which: ColumnElement[bool]) -> list[Iteration]:
        """Iterations of a job, the oldest first."""
        query = select(iterations).where(iterations.c.job == job, *which).order_by(iterations.c.number)
        with self._store.database.reading() as connection:
            return [read_iteration(row) for row in connection.execute(query)]


def _missed(found: Sequence[Iteration], since: datetime) -> list[list[Iteration]]:
    """Those that no scheduler has seen on time, grouped by when one did."""
    fired = [one for one in found if one.fired and one.fired > since]
    late = [one for one in fired if one.fired and one.fired - one.due > ON_TIME]
    return [list(together) for _, together in groupby(late, lambda one: one.fired)]


def _exists(uri: str) -> bool:
    url = make_url(uri)
    return url.get_backend_name() != "sqlite" or bool(url.database and Path(url.database).exists())


def _failure(one: Iteration, now: datetime, link: str) -> Notice:
    numbers = f"{counted(one.processed, 'page')} processed, {counted(one.queued, 'URL')} left"
    lines = [
        f"Reason: {one.reason}",
        f"Crawl {one.crawl}: {numbers}.",
        f"Run it again: scrapy jobs run {one.job}",
    ]
    title = f"{one.job}: iteration {one.number} failed"
    return Notice(f"{one.crawl} FAILED", "FAILED", title, "\n".join(lines), now, one.crawl, one.job, link)


def _missing(together: Sequence[Iteration], now: datetime, link: str) -> Notice:
    """Of firings that were missed together; the latest may run."""
    first, last = together[0], together[-1]
    number = counted(len(together), "firing")
    lines = [f"No scheduler ran when {number} came due, from {_time(first)} to {_time(last)}."]
    if len(together) == 1:
        lines = [f"No scheduler ran when it came due at {_time(first)}."]
    if ran := last.started is not None or last.state == State.WAITING:
        lines.append(f"Iteration {last.number} runs late: its crawl is {last.crawl}.")
    if skipped := len(together) - ran:
        lines.append(f"{counted(skipped, 'firing')} skipped.")
    lines.append(f"Run one now: scrapy jobs run {first.job}")
    title = f"{first.job}: {number} missed"
    key = f"{last.crawl} MISSED"
    return Notice(key, "MISSED", title, "\n".join(lines), now, last.crawl, last.job, link)


def _time(one: Iteration) -> str:
    return f"{one.due:%Y-%m-%d %H:%M} UTC"
