"""What a service has answered since its start, as plain numbers that become metrics when metrics are read.

For traced requests, the times of stages become spans too.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from webcrawl.live.lane import QUEUED
from webcrawl.metrics.observations import Histogram

if TYPE_CHECKING:
    # requires the extra "traces"
    from webcrawl.service.request_traces import RequestTraces

STAGES = {
    "read": "reading stored pages from the metadata database",
    "queue": "putting URLs into the live lane, with their request",
    "wait": "waiting for the pages that are fetched, at most `wait`",
    "parts": "reading the parts of pages from the stores",
}
"""The stages of a request, with the meaning of their seconds."""


class ServiceTally:
    """The numbers of one service. `traces`: None without TRACES."""

    def __init__(self) -> None:
        self.answers = Counter[tuple[str, str]]()
        """Operation and status -> answers."""
        self.seconds: defaultdict[str, Histogram] = defaultdict(Histogram)
        """Operation -> seconds from a request to the head of its answer."""
        self.stages = {name: Histogram() for name in STAGES}
        self.refusals = Counter[tuple[str, str]]()
        """Reason and name of the token -> refused requests, or URLs of a busy host."""
        self.queued = Counter[str]()
        """Name of the token -> URLs that were put into the live lane."""
        self.deliveries = Counter[str]()
        """Outcome -> attempts to deliver an event to a webhook."""
        self.waiting: dict[str, Callable[[], int]] = {}
        """What waits -> returns how many now."""
        self.traces: RequestTraces | None = None

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """Counts an answer."""
        self.answers[operation, str(status)] += 1
        self.seconds[operation].observe(seconds)

    def by_caller(self) -> Counter[tuple[str, str]]:
        """Returns numbers by name of the token and figure: `queued` URLs, and refusals by reason."""
        numbers = Counter({(token, QUEUED): number for token, number in self.queued.items()})
        numbers.update({(token, reason): number for (reason, token), number in self.refusals.items()})
        return numbers

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Observes the block as a stage of the present request, even if the block raises."""
        began = time.monotonic()
        with self.traces.stage(stage) if self.traces is not None else nullcontext():
            try:
                yield
            finally:
                self.stages[stage].observe(time.monotonic() - began)
