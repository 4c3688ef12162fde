"""Sends the notifications of jobs that no worker can send.

These notifications are about missed and skipped firings, replaced and failed iterations, and iterations with findings.
Unsent notices of ended crawls with their own metadata databases are sent too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.engine import make_url

from webcrawl.alarms.outbox import Notice, Outbox
from webcrawl.alarms.targets import Targets, deliver
from webcrawl.documents.values import counted
from webcrawl.errors import CrawlError
from webcrawl.jobs.claims import is_here
from webcrawl.jobs.crawls import JobCrawls
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.firing import MISSED, ON_TIME, REPLACED
from webcrawl.jobs.records import Iteration, IterationState
from webcrawl.jobs.store import JobStore, read_iteration
from webcrawl.jobs.tables import iterations

logger = logging.getLogger(__name__)

_LATELY = timedelta(days=1)
_TRIED = timedelta(days=4)
"""The time after the end of a crawl in which its notices are sent."""


class Telling:
    """Puts each notice once into the outbox of the jobs' database, and sends the outbox."""

    def __init__(self, store: JobStore, uri: str, crawls: JobCrawls, machine: str) -> None:
        self._store = store
        self._uri = uri
        self._crawls = crawls
        self._machine = machine
        self._sent: set[int] = set()
        """The iterations whose own outboxes are empty."""

    async def tell(self, now: datetime) -> None:
        """Sends new notices; raises StoreError. A job whose notices cannot be sent does not delay other jobs."""
        await asyncio.to_thread(self._tell, now)

    def _tell(self, now: datetime) -> None:
        for job in self._store.jobs():
            try:
                definition = Definition.of(job.definition)
                if urls := self._crawls.notified_urls(definition):
                    self._tell_of(definition, Targets(urls), now)
            except CrawlError as error:
                logger.warning("Cannot notify the people of job %s: %s", job.name, error)

    def _tell_of(self, definition: Definition, targets: Targets, now: datetime) -> None:
        link = self._crawls.page_of(definition)
        name = definition.name
        since = now - _LATELY
        fired, ended = iterations.c.fired > since, iterations.c.ended > since
        lately = self._some(name, or_(fired, ended, iterations.c.ended.is_(None)))
        over = [iteration for iteration in lately if iteration.ended and iteration.ended > since]
        failed = [iteration for iteration in over if iteration.state == IterationState.FAILED]
        notices = [_failure(iteration, now, link) for iteration in failed]
        notices += [_findings(iteration, now, link) for iteration in over if iteration.findings is not None]
        notices += [_missing(together, now, link) for together in _missed(lately, since)]
        with Outbox(self._uri) as outbox:
            for notice in (*notices, *overlaps(lately, now, link)):
                outbox.put(notice, targets.ids)
            deliver(outbox, targets, clock=lambda: now)
        self._send_left(definition, targets, now)

    def _send_left(self, definition: Definition, targets: Targets, now: datetime) -> None:
        """Sends the notices that ended crawls of a job have left in their own databases."""
        ended = (iterations.c.ended > now - _TRIED, iterations.c.deleted.is_(None))
        for iteration in self._some(definition.name, *ended, iterations.c.started.is_not(None)):
            if iteration.id in self._sent or not is_here(iteration, self._machine):
                continue
            uri = self._crawls.metadata(definition, iteration)
            if uri == self._uri or not _exists(uri):
                continue
            with Outbox(uri) as outbox:
                deliver(outbox, targets, clock=lambda: now)
                if not any(stored.due for stored in outbox.notices(unsent=True)):
                    self._sent.add(iteration.id)

    def _some(self, job: str, *which: ColumnElement[bool]) -> list[Iteration]:
        """Returns recent iterations of a job with the given conditions, the oldest first."""
        query = select(iterations).where(iterations.c.job == job, *which).order_by(iterations.c.number)
        with self._store.database.reading() as connection:
            return [read_iteration(row) for row in connection.execute(query).mappings()]


def _missed(lately: Sequence[Iteration], since: datetime) -> list[list[Iteration]]:
    """Returns the iterations that no scheduler created on time, grouped by the time of creation."""
    fired = [iteration for iteration in lately if iteration.fired and iteration.fired > since]
    late = [iteration for iteration in fired if iteration.fired and iteration.fired - iteration.due > ON_TIME]
    return [list(together) for _, together in groupby(late, lambda iteration: iteration.fired)]


def _exists(uri: str) -> bool:
    url = make_url(uri)
    return url.get_backend_name() != "sqlite" or bool(url.database and Path(url.database).exists())


def _failure(iteration: Iteration, now: datetime, link: str) -> Notice:
    lines = [
        f"Reason: {iteration.reason}",
        f"Crawl {iteration.crawl}: {_work(iteration)}.",
        f"Run it again: scrapy jobs run {iteration.job}",
    ]
    key, title = f"{iteration.crawl} FAILED", f"iteration {iteration.number} failed"
    return _notice(key, "FAILED", iteration, title, lines, now, link)


def _findings(iteration: Iteration, now: datetime, link: str) -> Notice:
    lines = [str(iteration.findings), f"Crawl {iteration.crawl}: {_work(iteration)}."]
    key, title = f"{iteration.crawl} FINDINGS", f"iteration {iteration.number} finished with findings"
    return _notice(key, "FINDINGS", iteration, title, lines, now, link)


def _missing(together: Sequence[Iteration], now: datetime, link: str) -> Notice:
    """Returns the notice about firings that were missed together; the latest may run."""
    first, last = together[0], together[-1]
    number = counted(len(together), "firing")
    lines = [f"No scheduler ran when {number} came due, from {_time(first.due)} to {_time(last.due)}."]
    if len(together) == 1:
        lines = [f"No scheduler ran when it came due at {_time(first.due)}."]
    if ran := last.started is not None or last.state == IterationState.WAITING:
        lines.append(f"Iteration {last.number} runs late: its crawl is {last.crawl}.")
    if skipped := len(together) - ran:
        lines.append(f"{counted(skipped, 'firing')} skipped.")
    lines.append(f"Run one now: scrapy jobs run {first.job}")
    return _notice(f"{last.crawl} MISSED", "MISSED", last, f"{number} missed", lines, now, link)


def overlaps(lately: Sequence[Iteration], now: datetime, link: str) -> list[Notice]:
    """Returns the notices about the latest iterations of a job, the oldest first; equal notices for each call.

    Firings that were skipped because of the same iteration share a notice: after the first, and whenever their number
    has doubled.
    """
    skipped = [(before, iteration) for iteration in lately if (before := _predecessor(iteration, lately))]
    notices = [
        _skipping(before, [iteration for _, iteration in together], now, link)
        for before, together in groupby(skipped, lambda pair: pair[0])
    ]
    replaced = [iteration for iteration in lately if _replacement(iteration)]
    return notices + [
        _replacing(reason, list(together), now, link) for reason, together in groupby(replaced, _replacement)
    ]


def _predecessor(iteration: Iteration, lately: Sequence[Iteration]) -> Iteration | None:
    """Returns the iteration because of which a firing was skipped; None if the firing ran or was missed."""
    if (
        iteration.state != IterationState.SKIPPED
        or iteration.fired is None
        or (iteration.reason or "").startswith(MISSED)
    ):
        return None
    return next((before for before in lately if _lasted_until(before, iteration, iteration.fired)), None)


def _lasted_until(before: Iteration, iteration: Iteration, moment: datetime) -> bool:
    if before.number >= iteration.number or before.state == IterationState.SKIPPED:
        return False
    return before.ended is None or before.ended >= moment


def _replacement(iteration: Iteration) -> str:
    """Returns why an iteration was replaced, or ""."""
    return next(
        (text for text in (iteration.stop, iteration.reason) if text and text.startswith(REPLACED)), ""
    )


def _skipping(before: Iteration, together: Sequence[Iteration], now: datetime, link: str) -> Notice:
    """Returns the notice about firings that were skipped because of the same iteration."""
    number = counted(len(together), "firing")
    lines = [
        f"{number} skipped, the latest at {_time(together[-1].due)}, because iteration {before.number} had not ended.",
        *_course(before),
        "If that happens often, let the job fire less often, or give it another overlap.",
    ]
    key = f"{before.crawl} SKIPPED {len(together).bit_length()}"
    return _notice(key, "OVERLAP", before, f"{number} skipped", lines, now, link)


def _replacing(reason: str, together: Sequence[Iteration], now: datetime, link: str) -> Notice:
    lines = [line for iteration in together for line in _course(iteration)]
    number = counted(len(together), "iteration")
    lines.insert(0, f"{number} {reason}.")
    key = f"{together[0].crawl} REPLACED"
    return _notice(key, "OVERLAP", together[0], f"{number} replaced", lines, now, link)


def _course(iteration: Iteration) -> Iterator[str]:
    began = (
        f"began at {_time(iteration.started)}"
        if iteration.started
        else f"had waited since {_time(iteration.due)}"
    )
    yield f"Iteration {iteration.number} {began}."
    if iteration.started:
        yield f"Crawl {iteration.crawl}: {_work(iteration)}."


def _notice(
    key: str, kind: str, iteration: Iteration, title: str, lines: list[str], now: datetime, link: str
) -> Notice:
    crawl, job = iteration.crawl, iteration.job
    return Notice(key, kind, f"{job}: {title}", "\n".join(lines), now, crawl, job, link)


def _work(iteration: Iteration) -> str:
    return f"{counted(iteration.processed, 'page')} processed, {counted(iteration.queued, 'URL')} left"


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
