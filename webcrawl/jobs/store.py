"""Stores jobs and iterations in the metadata database, for commands, the dashboard and operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, func, select

from webcrawl.errors import StoreError
from webcrawl.jobs.records import ACTIVE, Iteration, IterationState, Job, JobState
from webcrawl.jobs.tables import JOBS, iterations, jobs
from webcrawl.stores.schema import SchemaTables

_OFF = "the job was switched off"
_DELETED = "the job was deleted"


class JobStore(SchemaTables):
    """The tables of jobs in the database at a URI.

    Methods may be called from any thread; they raise StoreError, and StoreUnavailable when retrying may succeed.
    """

    def __init__(self, uri: str) -> None:
        super().__init__(uri, JOBS)

    def jobs(self) -> list[Job]:
        """Returns all jobs, by name."""
        with self.database.reading() as connection:
            return [_job(row) for row in connection.execute(_JOBS.order_by(jobs.c.name)).mappings()]

    def job(self, name: str) -> Job:
        """Returns a job; raises StoreError, which names the known jobs, if it does not exist."""
        with self.database.reading() as connection:
            return _existing(connection, name)

    def iterations(self, job: str | None = None, limit: int = 50) -> list[Iteration]:
        """Returns the latest iterations of a job or of all jobs, the newest first."""
        query = select(iterations).order_by(iterations.c.due.desc(), iterations.c.id.desc()).limit(limit)
        if job is not None:
            query = query.where(iterations.c.job == job)
        with self.database.reading() as connection:
            return [read_iteration(row) for row in connection.execute(query).mappings()]

    def active(self, job: str) -> list[Iteration]:
        """Returns the iterations of a job that have not ended, the newest first."""
        with self.database.reading() as connection:
            return active(connection, job)[::-1]

    def numbered(self, job: str, number: int | None) -> Iteration:
        """Returns the iteration of a job with a number; raises StoreError if there is none.

        Without a number, returns the latest iteration that has begun, or else the latest iteration.
        """
        begun = iterations.c.started.is_not(None).desc()
        query = select(iterations).where(iterations.c.job == job).order_by(begun, iterations.c.number.desc())
        if number is not None:
            query = query.where(iterations.c.number == number)
        with self.database.reading() as connection:
            row = connection.execute(query.limit(1)).mappings().first()
            if row is None:
                _existing(connection, job)
                which = "iteration yet" if number is None else f"iteration {number}"
                raise StoreError(f"job {job!r} has no {which}")
            return read_iteration(row)

    def iteration(self, id: int) -> Iteration | None:
        """Returns the iteration with this id."""
        with self.database.reading() as connection:
            row = connection.execute(select(iterations).where(iterations.c.id == id)).mappings().first()
            return None if row is None else read_iteration(row)

    def changes(self, definitions: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
        """Returns what `apply` would change: the new or changed keys of each new or changed job, by its name."""
        with self.database.reading() as connection:
            return _changes(connection, definitions)

    def apply(self, definitions: Iterable[Mapping[str, Any]], now: datetime) -> dict[str, list[str]]:
        """Stores definitions of jobs in one transaction; returns the result of `changes`.

        If a definition has a state and is new or has changed, the job gets this state. A job that is new or has another
        schedule fires for the first time after `now`.
        """
        definitions = list(definitions)

        def work(connection: Connection) -> dict[str, list[str]]:
            changed = _changes(connection, definitions)
            for definition in definitions:
                if definition["name"] in changed:
                    _store(connection, definition, set(changed[definition["name"]]), now)
            return changed

        return self.database.write(work)

    def set_state(self, name: str, state: JobState, now: datetime) -> Job:
        """Sets the state of a job; returns the job as it was. Firings that were due while it was not on are not missed.

        Schedulers stop the iterations of a job that is switched off. Raises StoreError.
        """

        def work(connection: Connection) -> Job:
            before = _existing(connection, name)
            _set_state(connection, before, state, now)
            return before

        return self.database.write(work)

    def delete(self, name: str, now: datetime) -> Job:
        """Deletes a job, and returns it. Its history stays, and its active iterations are stopped.

        Raises StoreError if the job does not exist.
        """

        def work(connection: Connection) -> Job:
            job = lock(connection, name) or _existing(connection, name)
            stop_active(connection, name, _DELETED, now)
            connection.execute(jobs.delete().where(jobs.c.name == name))
            return job

        return self.database.write(work)

    def check_idle(self, name: str) -> None:
        """Raises StoreError while an iteration of a job has not ended."""
        with self.database.reading() as connection:
            _check_idle(connection, name)

    def forget(self, name: str) -> int:
        """Deletes the history of a job; returns its number of iterations. Raises StoreError while an iteration runs."""

        def work(connection: Connection) -> int:
            lock(connection, name)
            _check_idle(connection, name)
            return connection.execute(iterations.delete().where(iterations.c.job == name)).rowcount

        return self.database.write(work)

    def run(self, name: str, now: datetime) -> Iteration:
        """Adds an iteration that starts as soon as a scheduler has room, whatever the schedule says.

        Raises StoreError if the job does not exist or one of its iterations waits already.
        """

        def work(connection: Connection) -> Iteration:
            job = lock(connection, name)
            if job is None:
                job = _existing(connection, name)
            if any(iteration.state == IterationState.WAITING for iteration in active(connection, name)):
                raise StoreError(
                    f"an iteration of job {name!r} waits already: see scrapy jobs history {name}"
                )
            due = now.replace(microsecond=0)
            while connection.execute(
                select(iterations.c.id).where(iterations.c.job == name, iterations.c.due == due)
            ).first():
                due += timedelta(seconds=1)
            return add_iteration(connection, name, due, now)

        return self.database.write(work)


_JOBS = select(*(jobs.c[name] for name in Job.__dataclass_fields__))


def lock(connection: Connection, name: str) -> Job | None:
    """Returns a job or None, and prevents other processes from deciding its firings until the transaction ends."""
    row = connection.execute(_JOBS.where(jobs.c.name == name).with_for_update()).mappings().first()
    return None if row is None else _job(row)


def active(connection: Connection, job: str) -> list[Iteration]:
    """Returns the iterations of a job that have not ended, the oldest first."""
    of_job = (iterations.c.job == job, iterations.c.state.in_(ACTIVE))
    query = select(iterations).where(*of_job).order_by(iterations.c.number)
    return [read_iteration(row) for row in connection.execute(query).mappings()]


def add_iteration(
    connection: Connection,
    job: str,
    due: datetime,
    now: datetime,
    *,
    skipped: str | None = None,
) -> Iteration:
    """Adds the iteration of a new firing. `skipped`: why the iteration is not run."""
    number = connection.execute(
        jobs.update()
        .where(jobs.c.name == job)
        .values(iterations=jobs.c.iterations + 1)
        .returning(jobs.c.iterations)
    ).scalar_one()
    values = {"job": job, "number": number, "crawl": crawl_id(job, due), "due": due}
    values |= {"state": IterationState.SKIPPED if skipped else IterationState.WAITING, "reason": skipped}
    values |= {"fired": now, "ended": now if skipped else None, "fence": 0, "beat": 0}
    values |= dict.fromkeys(("found", "queued", "crawled", "processed", "stuck"), 0)
    insert = iterations.insert().values(values).returning(*iterations.c)
    return read_iteration(connection.execute(insert).mappings().one())


def crawl_id(job: str, due: datetime) -> str:
    """Returns the CRAWL_ID of a firing. It has the time, so that a later job of the same name begins a new crawl."""
    return f"{job}-{due:%Y%m%dT%H%M%SZ}"


def stop_active(connection: Connection, job: str, reason: str, now: datetime) -> None:
    """Ends the waiting iterations of a job, and requests schedulers to stop the running iterations."""
    of_job = iterations.c.job == job
    ended = {"state": IterationState.STOPPED, "reason": reason, "ended": now}
    connection.execute(
        iterations.update().where(of_job, iterations.c.state == IterationState.WAITING).values(ended)
    )
    running = (of_job, iterations.c.state == IterationState.RUNNING, iterations.c.stop.is_(None))
    connection.execute(iterations.update().where(*running).values(stop=reason))


def read_iteration(row: RowMapping) -> Iteration:
    """Returns the iteration in a row of the table."""
    return Iteration(**{**row, "state": IterationState(row["state"])})


def _job(row: RowMapping) -> Job:
    return Job(**{**row, "state": JobState(row["state"])})


def _existing(connection: Connection, name: str) -> Job:
    row = connection.execute(_JOBS.where(jobs.c.name == name)).mappings().first()
    if row is None:
        names = ", ".join(connection.execute(select(jobs.c.name).order_by(jobs.c.name)).scalars())
        raise StoreError(
            f"there is no job {name!r}; " + (f"there are: {names}" if names else "none was applied")
        )
    return _job(row)


def _check_idle(connection: Connection, name: str) -> None:
    if running := active(connection, name):
        raise StoreError(
            f"iteration {running[0].number} of {name} has not ended, and is being stopped: repeat the command when "
            f"scrapy jobs history {name} shows its end"
        )


def _changes(connection: Connection, definitions: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    known = {job.name: job.definition for job in map(_job, connection.execute(_JOBS).mappings())}
    changed = {}
    for definition in definitions:
        before = known.get(definition["name"], {})
        keys = [key for key in {**definition, **before} if definition.get(key) != before.get(key)]
        if keys:
            changed[str(definition["name"])] = keys
    return changed


def _store(connection: Connection, definition: Mapping[str, Any], changed: set[str], now: datetime) -> None:
    name, state = definition["name"], JobState(definition.get("state") or JobState.ON)
    values = {"definition": dict(definition), "owner": definition.get("owner"), "applied": now}
    before = lock(connection, name)
    if before is None:
        # a deleted job of this name may have iterations
        query = select(func.max(iterations.c.number)).where(iterations.c.job == name)
        number = connection.execute(query).scalar() or 0
        new = {"name": name, "state": state, "decided": now, "iterations": number}
        connection.execute(jobs.insert().values(values | new))
        return
    if changed & {"cron", "timezone"}:
        values["decided"] = max(now, before.decided)
    connection.execute(jobs.update().where(jobs.c.name == name).values(values))
    if "state" in changed:
        _set_state(connection, before, state, now)


def _set_state(connection: Connection, before: Job, state: JobState, now: datetime) -> None:
    values: dict[str, Any] = {"state": state}
    if before.state != JobState.ON and state == JobState.ON:
        # never back: the clock of this machine may be behind that of the scheduler
        values["decided"] = max(now, before.decided)
    connection.execute(jobs.update().where(jobs.c.name == before.name).values(values))
    if state == JobState.OFF:
        stop_active(connection, before.name, _OFF, now)
