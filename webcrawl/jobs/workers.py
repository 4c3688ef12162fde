"""The interface of an iteration's workers, on this machine or on nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime, timedelta
from typing import NamedTuple

from webcrawl.jobs.records import IterationState

MOST_RESTARTS = 5
"""How many times a scheduler restarts the dead workers of an iteration."""


class Ended(NamedTuple):
    """How the crawl of an iteration ended."""

    state: IterationState
    reason: str


class IterationWorkers(ABC):
    """The workers of one iteration."""

    outlive_scheduler = False
    """Whether the workers continue after the end of the scheduler that started them."""

    @abstractmethod
    async def poll(self, now: datetime) -> Ended | None:
        """Returns how the crawl ended, or None while it runs. Restarts dead workers."""

    @abstractmethod
    async def stop(self) -> None:
        """Requests all workers to stop cleanly, and restarts none. `poll` returns the end when all have ended."""

    @abstractmethod
    async def kill(self) -> None:
        """Kills workers that hang; `poll` then restarts them."""

    @abstractmethod
    async def abandon(self) -> None:
        """Begins to stop workers that do not outlive the scheduler, which has lost or releases the iteration."""


class Restarts:
    """Decides when dead workers are restarted: after a pause that doubles, at most MOST_RESTARTS times."""

    def __init__(self) -> None:
        self.number = 0
        self._due: datetime | None = None

    @property
    def exhausted(self) -> bool:
        return self.number >= MOST_RESTARTS

    def are_due(self, now: datetime) -> bool:
        """Returns whether the next restart is due; the first call after a death sets its time."""
        if self._due is None:
            self._due = now + timedelta(seconds=2**self.number)
        if now < self._due:
            return False
        self._due = None
        self.number += 1
        return True
