"""The workers of an iteration, wherever they run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime, timedelta
from typing import NamedTuple

from webcrawl.jobs.records import IterationState

MOST_RESTARTS = 5
"""How often workers of an iteration are started again after they died, by one scheduler."""


class Ended(NamedTuple):
    """How the crawl of an iteration ended."""

    state: IterationState
    reason: str


class IterationWorkers(ABC):
    """The workers of one iteration."""

    outlive_scheduler = False
    """Whether the workers continue after the end of the scheduler that has started them."""

    @abstractmethod
    async def poll(self, now: datetime) -> Ended | None:
        """Returns how the crawl ended, None while it runs. Starts dead workers again."""

    @abstractmethod
    async def stop(self) -> None:
        """Asks all workers to stop cleanly, and starts none again. `poll` returns when they have ended."""

    @abstractmethod
    async def kill(self) -> None:
        """Ends workers that hang, which `poll` then starts again."""

    @abstractmethod
    async def abandon(self) -> None:
        """Begins to stop workers that do not outlive the scheduler, when it has lost or releases the iteration."""


class Restarts:
    """When dead workers are started again: after a pause that doubles, and at most MOST_RESTARTS times."""

    def __init__(self) -> None:
        self.number = 0
        self._due: datetime | None = None

    @property
    def exhausted(self) -> bool:
        return self.number >= MOST_RESTARTS

    def are_due(self, now: datetime) -> bool:
        """Whether it is time for the next restart; the first call after a death sets that time."""
        if self._due is None:
            self._due = now + timedelta(seconds=2**self.number)
        if now < self._due:
            return False
        self._due = None
        self.number += 1
        return True
