"""Runs workers as jobs of scrapyd nodes, which have the project as an egg and share an engine with the scheduler."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from webcrawl.errors import CrawlError, StoreUnavailable, brief
from webcrawl.http.fetch import fetch
from webcrawl.jobs.definition import Node
from webcrawl.jobs.records import IterationState
from webcrawl.jobs.workers import MOST_RESTARTS, Ended, IterationWorkers, Restarts

logger = logging.getLogger(__name__)

_SECONDS = 60.0
"""The timeout for a response. A node that schedules a project for the first time must look up its spiders."""
_LARGEST = 100_000_000
"""The most bytes of a response."""
_LOOK_FOR_SLOTS = timedelta(seconds=5)
"""The time after which workers that wait for a slot are tried again."""
_PATIENCE = timedelta(seconds=60)
"""The time without an answer of a node after which its workers count as dead."""

Form = Sequence[tuple[str, str]]


class Nodes:
    """The API of scrapyd nodes. Methods raise StoreUnavailable with the address of the node.

    `placing`: a lock shared by all objects that place jobs on these nodes.
    """

    def __init__(self, nodes: Sequence[Node], project: str, placing: asyncio.Lock) -> None:
        self.addresses = [node.address for node in nodes]
        self._slots = [node.slots for node in nodes]
        self._project = project
        self._placing = placing

    async def schedule(self, job: str, form: Form) -> str | None:
        """Adds a job to the best node and returns its address; None if no node has a free slot."""
        async with self._placing:
            address = await self._best()
            if address is not None:
                fields = [("project", self._project), ("jobid", job), *form]
                await self._ask(address, "schedule.json", fields)
        return address

    async def _best(self) -> str | None:
        """Returns the node with the most free slots; a node with unknown slots only if no other has a free slot.

        Of these, nodes without waiting jobs come first: a node with a waiting job has no free slot. Few jobs are next.
        """
        answers = await self._all("daemonstatus.json")
        if all(isinstance(answer, BaseException) for answer in answers):
            raise StoreUnavailable(f"no node answers: {', '.join(self.addresses)}")
        ranks: list[tuple[int, int, str]] = []
        for address, slots, answer in zip(self.addresses, self._slots, answers, strict=True):
            if isinstance(answer, BaseException):
                continue
            waiting, running = int(answer.get("pending", 0)), int(answer.get("running", 0))
            if slots is None:
                ranks.append((1 + bool(waiting), waiting + running, address))
            elif waiting + running < slots:
                ranks.append((0, waiting + running - slots, address))
        return min(ranks)[2] if ranks else None

    async def cancel(self, address: str, job: str, signal: str = "TERM") -> None:
        """Sends a signal to a running job, by default to stop it cleanly, or removes a waiting job from the queue."""
        await self._ask(
            address, "cancel.json", [("project", self._project), ("job", job), ("signal", signal)]
        )

    async def jobs(self) -> dict[str, dict[str, bool] | None]:
        """Returns by node its jobs, and whether each is pending or running; None for a node that does not answer."""
        answers = await self._all(f"listjobs.json?project={self._project}")
        return {
            address: None if isinstance(answer, BaseException) else _states(answer)
            for address, answer in zip(self.addresses, answers, strict=True)
        }

    async def _all(self, path: str) -> list[dict[str, Any] | BaseException]:
        asked = (self._ask(address, path) for address in self.addresses)
        return await asyncio.gather(*asked, return_exceptions=True)

    async def _ask(self, address: str, path: str, form: Form | None = None) -> dict[str, Any]:
        try:
            reply = await fetch(f"{address}/{path}", seconds=_SECONDS, largest=_LARGEST, form=form)
            answer = dict(json.loads(reply.body))
        except (CrawlError, OSError, ValueError, TypeError) as error:
            raise StoreUnavailable(f"{address}: {brief(error) or 'no answer in time'}") from error
        if answer.get("status") != "ok":
            raise StoreUnavailable(f"{address}: {answer.get('message', answer)}")
        return answer


def _states(answer: Mapping[str, Any]) -> dict[str, bool]:
    alive = {str(job["id"]): True for name in ("pending", "running") for job in answer.get(name, ())}
    return {str(job["id"]): False for job in answer.get("finished", ())} | alive


@dataclass(slots=True)
class _NodeWorker:
    """A worker: its node, and the number of its current job."""

    attempts: int = 0
    address: str | None = None
    """The address of the node; None while the worker is on no node."""
    waits: bool = False
    """Whether the worker waits for a free slot."""
    seen: datetime | None = None
    """When the node last answered."""


class NodeJobs(IterationWorkers):
    """The workers of an iteration on nodes. The name of a job has crawl, worker and attempt, so that another scheduler
    can find the job.

    `outcome` returns how the crawl ended according to the engine; None if it has not ended.
    """

    outlive_scheduler = True

    def __init__(
        self, nodes: Nodes, crawl: str, form: Form, number: int, outcome: Callable[[], Awaitable[str | None]]
    ) -> None:
        self._nodes = nodes
        self._crawl = crawl
        self._form = form
        self._outcome = outcome
        self._workers = [_NodeWorker() for _ in range(number)]
        self._restarts = Restarts()
        self._stopping = False
        self._problem = ""
        self._begun = False
        self._look: datetime | None = None
        """When workers that wait for a slot will be tried next."""

    async def poll(self, now: datetime) -> Ended | None:
        known = await self._nodes.jobs()
        if not self._begun:
            self._adopt(known, now)
            if self._stopping:
                # takes over jobs that an earlier scheduler has started
                self._begun = True
                await self._cancel("TERM")
        gone = [index for index in range(len(self._workers)) if not self._is_alive(index, known, now)]
        if self._stopping:
            return Ended(IterationState.STOPPED, "shutdown") if len(gone) == len(self._workers) else None
        if not self._begun:
            self._begun = True
            await self._schedule(gone, now)
            return None
        if not gone or self._only_wait(gone, now):
            return None
        # scrapyd does not report how a job ended; while all workers wait, a crawl without URLs has not begun
        reason = await self._outcome() if any(worker.attempts for worker in self._workers) else None
        if reason is None:
            return await self._restart(gone, now)
        return Ended(IterationState.FINISHED, reason) if len(gone) == len(self._workers) else None

    async def stop(self) -> None:
        self._stopping = True
        await self._cancel("TERM")

    async def kill(self) -> None:
        await self._cancel("KILL")

    async def abandon(self) -> None:
        """Leaves the jobs, which do not end with this process, to the scheduler that has taken the iteration."""

    async def _cancel(self, signal: str) -> None:
        for index, worker in enumerate(self._workers):
            if worker.address is not None:
                try:
                    await self._nodes.cancel(worker.address, self._job(index), signal)
                except CrawlError as error:
                    logger.warning("Cannot stop a worker of %s: %s", self._crawl, error)

    def _job(self, index: int) -> str:
        return f"{self._crawl}.{index}.{self._workers[index].attempts}"

    def _adopt(self, known: Mapping[str, Mapping[str, bool] | None], now: datetime) -> None:
        """Takes over the jobs that an earlier scheduler has started."""
        for address, jobs in known.items():
            for job in jobs or ():
                crawl, _, rest = job.rpartition(".")[0].rpartition(".")
                attempt = job.rpartition(".")[2]
                if (
                    crawl == self._crawl
                    and rest.isdigit()
                    and attempt.isdigit()
                    and int(rest) < len(self._workers)
                ):
                    worker = self._workers[int(rest)]
                    if int(attempt) >= worker.attempts:
                        worker.attempts, worker.address, worker.seen = int(attempt), address, now

    def _is_alive(self, index: int, known: Mapping[str, Mapping[str, bool] | None], now: datetime) -> bool:
        worker = self._workers[index]
        if worker.address is None:
            return False
        jobs = known.get(worker.address)
        if jobs is None:
            return now - (worker.seen or now) < _PATIENCE
        worker.seen = now
        return jobs.get(self._job(index), False)

    def _only_wait(self, gone: Sequence[int], now: datetime) -> bool:
        """Returns whether the workers have only waited for a slot since they were tried a moment ago."""
        recently = self._look is not None and now < self._look
        return recently and all(self._workers[index].waits for index in gone)

    async def _restart(self, gone: Sequence[int], now: datetime) -> Ended | None:
        waiting = [index for index in gone if self._workers[index].waits]
        if waiting:
            await self._schedule(waiting, now)
        if len(waiting) == len(gone):
            return None
        if self._restarts.exhausted:
            if len(gone) < len(self._workers):
                await self.stop()
                return None
            why = self._problem or "see the logs of the nodes"
            return Ended(IterationState.FAILED, f"workers ended early {MOST_RESTARTS + 1} times: {why}")
        if self._restarts.are_due(now):
            await self._schedule([index for index in gone if index not in waiting], now)
        return None

    async def _schedule(self, indexes: Sequence[int], now: datetime) -> None:
        waited = self._waiting
        for index in indexes:
            worker = self._workers[index]
            worker.attempts += 1
            worker.address, worker.waits = None, False
            try:
                worker.address, worker.seen = await self._nodes.schedule(self._job(index), self._form), now
            except CrawlError as error:
                self._problem = str(error)
                logger.warning("Cannot start a worker of %s: %s", self._crawl, error)
            else:
                if worker.address is None:
                    worker.attempts, worker.waits = worker.attempts - 1, True
        self._look = now + _LOOK_FOR_SLOTS
        if self._waiting != waited:
            logger.warning(
                "%d of %d workers of %s wait for a free slot on %s",
                self._waiting,
                len(self._workers),
                self._crawl,
                ", ".join(self._nodes.addresses),
            )

    @property
    def _waiting(self) -> int:
        return sum(worker.waits for worker in self._workers)
