"""Deletes the crawl, pages, rows and folder of ended iterations that their job no longer keeps.

The row of the iteration stays, as history. Each step may be repeated; an iteration is deleted when all steps are done.
Pages that the iterations of a job share are deleted with the history of the job; rows of pages that no kept iteration
has fetched, before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, func, select

from webcrawl.alarms.stuck import StuckPages
from webcrawl.config import StoreConfig, read
from webcrawl.documents.values import size
from webcrawl.errors import StoreError, WrongJob
from webcrawl.jobs.claims import is_here
from webcrawl.jobs.crawls import JobCrawls
from webcrawl.jobs.definition import Definition, Keep
from webcrawl.jobs.records import ACTIVE, Iteration
from webcrawl.jobs.shared_pages import delete_folder, delete_pages, shared_pages
from webcrawl.jobs.store import JobStore, read_iteration
from webcrawl.jobs.tables import iterations
from webcrawl.stores.columns import fetches, pages
from webcrawl.stores.database import Database
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.objects.store import location, open_store

logger = logging.getLogger(__name__)

_ROWS = 1_000


def expired(ended: Sequence[Iteration], keep: Keep, now: datetime) -> list[Iteration]:
    """Returns the ended iterations that `keep` no longer covers, by number or age. `ended`: the newest first."""
    number = len(ended) if keep.iterations is None else keep.iterations
    oldest = datetime.min.replace(tzinfo=now.tzinfo) if keep.days is None else now - timedelta(days=keep.days)
    return [
        iteration
        for rank, iteration in enumerate(ended)
        if rank >= number or (iteration.ended or now) < oldest
    ]


def outdated(ended: Sequence[Iteration], keep: Keep, now: datetime) -> list[Iteration]:
    """Returns the `expired` iterations after which so many were complete as `keep` has, and at least one."""
    after = accumulate(iteration.is_complete for iteration in ended)
    complete = dict(zip((iteration.id for iteration in ended), after, strict=True))
    least = max(1, keep.iterations or 1)
    return [
        iteration
        for iteration in expired(ended, keep, now)
        if complete[iteration.id] - iteration.is_complete >= least
    ]


class Retention:
    """Deletes crawls on this machine, and in stores and engines that this machine can reach."""

    def __init__(self, store: JobStore, crawls: JobCrawls, machine: str) -> None:
        self._store = store
        self._crawls = crawls
        self._machine = machine
        self._trimmed: dict[str, set[str]] = {}
        """The crawls whose rows have been deleted from the shared pages of a job."""

    def due(self, now: datetime) -> list[tuple[Definition, Iteration]]:
        """Returns the iterations to delete with their definitions; raises StoreError.

        Keeps what belongs to jobs whose definition cannot be read.
        """
        due = []
        for definition in self._definitions():
            if definition.keep.all:
                continue
            for iteration in expired(self._ended(definition.name), definition.keep, now):
                if iteration.deleted is None and is_here(iteration, self._machine):
                    due.append((definition, iteration))
        return due

    def untrimmed(self, now: datetime) -> list[tuple[Definition, set[str]]]:
        """Returns jobs with the crawls whose pages `trim` deletes; raises StoreError.

        As many complete iterations as the job keeps must have come after a crawl, so that a run with a limit, or one
        that was stopped, loses nothing. Leaves out jobs that run, and those whose definition cannot be read.
        """
        due = []
        for definition in self._definitions():
            name = definition.name
            if definition.keep.all or not self._crawls.shares_pages(definition) or self._runs(name):
                continue
            crawls = {iteration.crawl for iteration in outdated(self._ended(name), definition.keep, now)}
            if crawls - self._trimmed.get(name, set()):
                due.append((definition, crawls))
        return due

    def _definitions(self) -> Iterator[Definition]:
        """Yields the definitions of all jobs, and warns of those that cannot be read."""
        for job in self._store.jobs():
            try:
                yield Definition.of(job.definition)
            except WrongJob as error:
                logger.warning("Nothing of job %s is deleted, because it cannot be read: %s", job.name, error)

    async def trim(self, definition: Definition, crawls: set[str], *, dry_run: bool = False) -> int:
        """Deletes the rows of shared pages that these crawls fetched last, and returns their number; raises StoreError.

        Rows of which other pages are copies stay, and so does the archive. With `dry_run` nothing is deleted.
        """
        number = await asyncio.to_thread(self._trim, definition, crawls, dry_run)
        if not dry_run:
            self._trimmed[definition.name] = crawls
        return number

    def _trim(self, definition: Definition, crawls: set[str], dry_run: bool) -> int:
        settings = self._crawls.settings(definition)
        shared = shared_pages(self._crawls.job_folder(definition.name)) / "metadata.db"
        own = not read(settings, "METADATA_URI")
        if own and not shared.exists():
            return 0
        uri = f"sqlite:///{shared.absolute()}" if own else StoreConfig.from_settings(settings).metadata
        with Metadata(uri) as metadata:
            gone = crawls.intersection(metadata.crawls())
            copies = pages.alias()
            originals = select(copies.c.duplicate_of).where(
                copies.c.duplicate_of.is_not(None), copies.c.crawl.not_in(gone)
            )
            which = pages.c.crawl.in_(gone) & pages.c.url.not_in(originals)
            with metadata.database.reading() as connection:
                number = connection.execute(select(func.count()).select_from(pages).where(which)).scalar_one()
        if number and not dry_run:
            _delete_rows(uri, which)
        return int(number)

    def _runs(self, job: str) -> bool:
        active = select(iterations.c.id).where(iterations.c.job == job, iterations.c.state.in_(ACTIVE))
        with self._store.database.reading() as connection:
            return connection.execute(active.limit(1)).first() is not None

    async def delete_all(self, definition: Definition, now: datetime) -> list[Iteration]:
        """Deletes the stored data of a job and all its ended iterations, and returns these iterations.

        Raises EngineError, and StoreError, also if data of an iteration is on another machine.
        """
        left = [iteration for iteration in self._ended(definition.name) if iteration.deleted is None]
        here = [iteration for iteration in left if is_here(iteration, self._machine)]
        for iteration in here:
            await self.delete(definition, iteration, now)
        await asyncio.to_thread(self._delete_shared, definition)
        if elsewhere := [iteration for iteration in left if iteration not in here]:
            machines = ", ".join(sorted({str(iteration.machine) for iteration in elsewhere}))
            numbers = ", ".join(str(iteration.number) for iteration in reversed(elsewhere))
            raise StoreError(
                f"what iterations {numbers} of {definition.name} have stored is on {machines}: "
                "run the same command there"
            )
        return here

    async def delete(self, definition: Definition, iteration: Iteration, now: datetime) -> None:
        """Deletes the stored data of an iteration; raises StoreError or EngineError."""
        await self._delete_crawl(definition, iteration)
        await asyncio.to_thread(self._delete_stored, definition, iteration)
        self._store.database.write(
            lambda connection: connection.execute(
                iterations.update().where(iterations.c.id == iteration.id).values(deleted=now)
            )
        )

    def described(self, definition: Definition, iteration: Iteration) -> str:
        """Returns a line about the data that `delete` would delete."""
        settings = self._crawls.settings(definition, iteration)
        targets = [f"crawl {iteration.crawl}"] if self._crawls.shared_engine else []
        if iteration.data_dir:
            targets.append(f"{iteration.data_dir} ({size(_folder_bytes(Path(iteration.data_dir)))})")
        if not self._crawls.shares_pages(definition):
            targets += [str(read(settings, "STORE_URI"))] if read(settings, "STORE_URI") else []
            targets += ["rows"] if read(settings, "METADATA_URI") else []
        if definition.checkpoints:
            targets.append(f"{definition.checkpoints.to.rstrip('/')}/{iteration.crawl}")
        return ", ".join(targets)

    def _ended(self, job: str) -> list[Iteration]:
        """Returns the iterations of a job that began and have ended, the newest first."""
        begun = (iterations.c.job == job, iterations.c.started.is_not(None), ~iterations.c.state.in_(ACTIVE))
        with self._store.database.reading() as connection:
            query = select(iterations).where(*begun).order_by(iterations.c.number.desc())
            return [read_iteration(row) for row in connection.execute(query).mappings()]

    async def _delete_crawl(self, definition: Definition, iteration: Iteration) -> None:
        """Deletes the crawl from a shared engine; an embedded engine is deleted with its folder."""
        if not self._crawls.shared_engine:
            return
        async with self._crawls.connected(definition, iteration) as opened:
            if not await opened.connection.adopt_layout():
                return
            if await opened.connection.crawl.workers.count_alive():
                raise StoreError(f"crawl {iteration.crawl!r} still has workers")
            await opened.connection.clear()

    def _delete_stored(self, definition: Definition, iteration: Iteration) -> None:
        settings = self._crawls.settings(definition, iteration)
        stores = StoreConfig.from_settings(settings)
        shares = self._crawls.shares_pages(definition)
        uris = [stores.pages] if read(settings, "STORE_URI") and not shares else []
        if definition.checkpoints:
            uris.append(location(f"{definition.checkpoints.to.rstrip('/')}/{iteration.crawl}"))
        if shares and read(settings, "CHECKPOINT_EVERY"):
            uris.append(f"{stores.checkpoints}/{iteration.crawl}")
        for uri in uris:
            # the crawl is the last segment of the URI
            parent, _, crawl = uri.rpartition("/")
            open_store(parent, "STORE_URI", stores.object_stores, check=False).delete_folder(crawl)
        folder = Path(iteration.data_dir) if iteration.data_dir else None
        if read(settings, "METADATA_URI") or (shares and folder is not None and folder.exists()):
            if not shares:
                _delete_rows(stores.metadata, pages.c.crawl == iteration.crawl)
            with StuckPages(stores.metadata) as stuck:
                stuck.remove(iteration.crawl)
        if folder is not None:
            self._delete_folder(folder, iteration)

    def _delete_shared(self, definition: Definition) -> None:
        """Deletes the pages that the iterations of a job share."""
        delete_pages(self._crawls.job_folder(definition.name))
        if not self._crawls.shares_pages(definition):
            return
        settings = self._crawls.settings(definition)
        stores = StoreConfig.from_settings(settings)
        if uri := self._crawls.shared_store(definition):
            open_store(uri, "STORE_URI", stores.object_stores, check=False).delete_folder(definition.name)
        if read(settings, "METADATA_URI"):
            for iteration in self._ended(definition.name):
                _delete_rows(stores.metadata, pages.c.crawl == iteration.crawl)

    def _delete_folder(self, folder: Path, iteration: Iteration) -> None:
        if (
            folder.name != iteration.crawl.removeprefix(f"{iteration.job}-")
            or folder.parent.name != iteration.job
        ):
            raise StoreError(
                f"{folder} is not the folder of iteration {iteration.number} of {iteration.job}: it is kept"
            )
        delete_folder(folder)


def _delete_rows(uri: str, which: ColumnElement[bool]) -> None:
    """Deletes rows of pages, with their history, in small transactions."""
    database = Database(uri)
    try:
        while True:
            with database.reading() as connection:
                query = select(pages.c.url).where(which).limit(_ROWS)
                urls = list(connection.execute(query).scalars())
            if not urls:
                return

            def work(connection: Connection, urls: Sequence[str] = urls) -> None:
                # again by `which`: a running crawl may have stored some of these pages meanwhile
                old = pages.delete().where(pages.c.url.in_(urls), which).returning(pages.c.url)
                deleted = connection.execute(old).scalars().all()
                connection.execute(fetches.delete().where(fetches.c.url.in_(deleted)))

            database.write(work)
    finally:
        database.close()


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
