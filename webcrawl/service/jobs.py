"""`/v1/jobs`: jobs are listed, paused and resumed, and their iterations started, as on the dashboard."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from webcrawl.client.answers import IterationEntry, JobEntries, JobEntry
from webcrawl.errors import NoSuchPage, StoreError, StoreUnavailable
from webcrawl.jobs.records import Iteration, JobState
from webcrawl.jobs.store import JobStore
from webcrawl.service.operation import ApiCall, Operation
from webcrawl.service.problem import ApiProblem, ProblemKind
from webcrawl.service.service import Service
from webcrawl.web.access import Role
from webcrawl.web.job_store import Shown, job_store, metadata_uri, shown_job, shown_jobs

Change: TypeAlias = Callable[[JobStore, str, datetime], object]


def operations(service: Service) -> Iterator[Operation]:
    """Yields the operations on jobs."""
    endpoint = _JobsEndpoint(service)
    yield Operation(
        name="listJobs",
        method="GET",
        path="/v1/jobs",
        summary="List the jobs with their schedules and latest iterations",
        tag="jobs",
        handle=endpoint.read_all,
        answers={200: JobEntries},
    )
    for verb, summary, change in _CHANGES:
        yield Operation(
            name=f"{verb}Job",
            method="POST",
            path="/v1/jobs/{job}:" + verb,
            summary=summary,
            tag="jobs",
            role=Role.OPERATOR,
            handle=endpoint.changing(change),
            parameters={"job": "The name of the job."},
            answers={200: JobEntry},
            problems=(ProblemKind.NOT_FOUND, ProblemKind.CONFLICT),
        )


_CHANGES: tuple[tuple[str, str, Change], ...] = (
    (
        "pause",
        "Pause a job: it does not fire until it is resumed, and a running iteration goes on",
        lambda store, name, now: store.set_state(name, JobState.PAUSED, now),
    ),
    (
        "resume",
        "Let a job fire again that was paused or switched off",
        lambda store, name, now: store.set_state(name, JobState.ON, now),
    ),
    (
        "start",
        "Add an iteration, which starts as soon as a scheduler has room",
        lambda store, name, now: store.run(name, now),
    ),
)


@dataclass(frozen=True)
class _JobsEndpoint:
    service: Service

    async def read_all(self, call: ApiCall) -> JobEntries:
        jobs = await asyncio.to_thread(lambda: shown_jobs(metadata_uri(self.service.settings)))
        return JobEntries([_entry(shown) for shown in jobs])

    def changing(self, change: Change) -> Callable[[ApiCall], Awaitable[JobEntry]]:
        """Returns the handler of a change."""

        async def handle(call: ApiCall) -> JobEntry:
            return await asyncio.to_thread(self._changed, change, call.path("job"))

        return handle

    def _changed(self, change: Change, name: str) -> JobEntry:
        uri = metadata_uri(self.service.settings)
        try:
            shown_job(uri, name)
            assert uri is not None
            change(job_store(uri), name, datetime.now(UTC))
            return _entry(shown_job(uri, name))
        except NoSuchPage as error:
            raise ApiProblem(ProblemKind.NOT_FOUND, str(error)) from error
        except StoreUnavailable:
            raise
        except StoreError as error:  # an iteration waits already
            raise ApiProblem(ProblemKind.CONFLICT, str(error)) from error


def _entry(shown: Shown) -> JobEntry:
    job, definition = shown.job, shown.job.definition
    return JobEntry(
        job.name,
        str(job.state),
        str(definition.get("spider", "")),
        str(definition.get("cron", "")),
        timezone=str(definition.get("timezone") or "UTC"),
        owner=job.owner,
        following=_text(shown.following),
        iterations=[_iteration(iteration) for iteration in shown.iterations],
    )


def _iteration(iteration: Iteration) -> IterationEntry:
    return IterationEntry(
        iteration.number,
        iteration.crawl,
        str(iteration.state),
        iteration.due.isoformat(),
        started=_text(iteration.started),
        ended=_text(iteration.ended),
        reason=iteration.reason,
        queued=iteration.queued,
        processed=iteration.processed,
        stuck=iteration.stuck,
    )


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()
