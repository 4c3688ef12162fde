"""Copies the frontier of running iterations on a schedule, and keeps the latest copies.

<to>/<crawl>/20260327T053000Z/     a checkpoint, as `scrapy checkpoint` writes it; `scrapy restore` reads it
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from webcrawl.errors import StoreError
from webcrawl.frontier.checkpoint.export import Exporter
from webcrawl.frontier.checkpoint.files import MANIFEST
from webcrawl.frontier.checkpoint.save import save
from webcrawl.jobs.crawls import Crawls
from webcrawl.jobs.definition import Checkpoints, Definition
from webcrawl.jobs.records import Iteration
from webcrawl.stores.objects.registry import location, open_store
from webcrawl.stores.objects.store import ObjectStore

_STAMP = "%Y%m%dT%H%M%SZ"


class CheckpointKeeper:
    """Writes and deletes the checkpoints of iterations."""

    def __init__(self, crawls: Crawls) -> None:
        self._crawls = crawls
        self._next: dict[int, datetime] = {}
        """Iteration -> when its next checkpoint is due, as far as it is known."""

    async def look_after(self, definition: Definition, one: Iteration, now: datetime) -> str | None:
        """Writes a checkpoint if one is due, and returns its URI; raises StoreError, EngineError."""
        plan = definition.checkpoints
        if plan is None or one.started is None:
            return None
        if now < self._next.get(one.id, one.started + timedelta(hours=plan.hours)):
            return None
        async with self._crawls.opened(definition, one) as opened:
            connection = opened.connection
            classes = opened.stores.object_stores
            place = location(f"{plan.to.rstrip('/')}/{one.crawl}")
            store = open_store(place, "checkpoints", classes)
            done = await asyncio.to_thread(complete, store)
            self._next[one.id] = _time(done[-1] if done else None, one.started) + timedelta(hours=plan.hours)
            if now < self._next[one.id]:
                return None
            await connection.tails.check()
            uri = f"{place}/{now:{_STAMP}}"
            exporter = Exporter(connection.engine, connection.keys, connection.worker, connection.tails)
            await save(exporter, open_store(uri, "checkpoints", classes), force=True)
            self._next[one.id] = now + timedelta(hours=plan.hours)
            await asyncio.to_thread(prune, store, plan)
            return uri


def complete(store: ObjectStore) -> list[str]:
    """The names of the complete checkpoints, the oldest first."""
    names = [one.name for one in store.objects()]
    return sorted(name.partition("/")[0] for name in names if name.endswith(f"/{MANIFEST}"))


def prune(store: ObjectStore, plan: Checkpoints) -> None:
    """Deletes all but the latest checkpoints, and what is left of earlier ones that were never completed."""
    kept = complete(store)[-plan.keep :]
    begun = {one.name.partition("/")[0] for one in store.objects()}
    for stamp in sorted(one for one in begun if kept and one < kept[0]):
        # first what makes it complete: nobody restores half of it
        store.delete(f"{stamp}/{MANIFEST}")
        store.delete_folder(stamp)


def _time(stamp: str | None, started: datetime) -> datetime:
    if stamp is None:
        return started
    try:
        return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    except ValueError as error:
        raise StoreError(f"{stamp!r} is not the time of a checkpoint") from error
