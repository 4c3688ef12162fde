"""The observations of a worker since its start, as plain numbers that become metrics when metrics are read.

Objects of prometheus_client would take a lock for each observation, and several times as long. For traced pages, the
same times become spans.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    # requires the extra "traces"
    from webcrawl.metrics.traces import Traces

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the buckets in seconds; a last bucket has no bound."""

_HOUR, _DAY = 3600.0, 86400.0
_LONG = (_HOUR, 3 * _HOUR, 12 * _HOUR, _DAY, 3 * _DAY, 7 * _DAY, 30 * _DAY)
LONG_BOUNDS = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, *_LONG)
"""Upper bounds in seconds for waits in the queue of a crawl."""

LIVE_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds in seconds for the URLs of the live lane, from a message to the event of its page."""

STAGES = {
    "queue": "in this worker, from the lease of the URL until its request is made",
    "robots": "for a robots.txt that this worker did not have in memory",
    "dns": "for an answer of the DNS; names in the cache are not observed",
    "turn": "for the turn of its host, and for a connection of `CONCURRENT_REQUESTS`",
    "browser": "for a place in the browser, which renders as many pages at once as there are processors",
    "render": "in the browser, until the page is complete or has failed, with all that it loads",
    "connect": "for a new connection, with TLS; kept connections are not observed",
    "first_byte": "from the sending of the request to the end of the head of the response",
    "body": "from there to the last byte",
    "parse": "from the last byte to the first item pipeline: decoding, parsing, links, the callback",
    "pipelines": "in all item pipelines, with the stores",
    "acknowledgement": "from the end of all work until the engine has acknowledged it, after the links of the page",
}
"""The stages of a page in their order, with the meaning of their seconds."""
STORES = ("archive", "texts", "links", "metadata")


class Histogram:
    """Durations, counted in buckets with these upper bounds in seconds, and a last bucket without a bound."""

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: tuple[float, ...] = BOUNDS) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """Sum of all durations in seconds."""

    @classmethod
    def of(cls, counts: Mapping[float, int], total: float, bounds: tuple[float, ...]) -> Self:
        """Returns a histogram with these counts by upper bound, `math.inf` for the last bucket."""
        histogram = cls(bounds)
        histogram._counts = [counts.get(bound, 0) for bound in (*bounds, math.inf)]
        histogram.total = total
        return histogram

    def observe(self, seconds: float) -> None:
        """Counts a duration. A negative duration, after a clock was set back, adds nothing to the total."""
        self._counts[bisect_left(self.bounds, seconds)] += 1
        if seconds > 0:
            self.total += seconds

    def buckets(self) -> Iterator[int]:
        """Yields the number of durations up to each bound, and then of all durations."""
        return accumulate(self._counts)

    @property
    def count(self) -> int:
        """The number of durations."""
        return sum(self._counts)


class Observations:
    """The observations of a worker: the durations of stages and stores, and counts."""

    __slots__ = ("counts", "queued", "robots_in_memory", "stages", "stores", "traces")

    def __init__(self) -> None:
        self.traces: Traces | None = None
        """The traces of pages; None without TRACES."""
        self.queued = Histogram(LONG_BOUNDS)
        """How long sampled URLs were queued; webcrawl.frontier.entry chooses the sample."""
        self.stages = {name: Histogram() for name in STAGES}
        self.stores = {name: Histogram() for name in STORES}
        self.counts: Counter[str] = Counter()
        """The increments of the crawl's totals that were sent to the engine."""
        self.robots_in_memory = 0
        """The number of requests whose robots.txt was in the memory of this worker."""

    def stage(self, name: str, url: str, began: float, ended: float | None = None) -> None:
        """Observes a stage of the page at a URL between the monotonic times `began` and `ended`, or until now."""
        if ended is None:
            ended = time.monotonic()
        self.stages[name].observe(ended - began)
        if self.traces is not None:
            self.traces.add(url, name, began, ended)

    @contextmanager
    def timed(self, name: str, url: str) -> Iterator[None]:
        """Observes the block as a stage of the page at a URL, even if the block raises."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.stage(name, url, began)

    def store(self, name: str, url: str, began: float) -> None:
        """Observes the write of the page at a URL by a store, from the monotonic time `began` until now."""
        ended = time.monotonic()
        self.stores[name].observe(ended - began)
        if self.traces is not None:
            self.traces.add(url, name, began, ended, inside="pipelines")
