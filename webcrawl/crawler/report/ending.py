"""Estimates when a crawl ends, at a limit or with an empty queue, and finds the hosts that delay the end.

There is no estimate until the course of the crawl was steady for a while, so that its equal parts have about the same
rate. An estimate moves slowly, and is withdrawn when the course is no longer steady.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from webcrawl.crawler.report.stages import LeasedHostState, Stage
from webcrawl.frontier import Frontier

_LEAST_SECONDS = 20.0
"""The least seconds of the course for an estimate."""
_SPANS = (120.0, 60.0, 30.0)
"""Spans in seconds; the longest span in which the course was steady is used."""
_POINT_SECONDS = 1.0
"""The shortest time between two points."""
_PARTS = 4
_LEAST_POINTS = _PARTS + 1
"""The least number of points in a span."""
_STEADY = 2.0
"""The rates of a steady course's parts differ by at most this factor."""
_KEPT_SECONDS = 10.0
"""Seconds for which an ending is shown after the course was last steady."""
_STEP = 0.1
"""A shown ending moves by at most this share of the time left."""
_HOSTS_ASKED = 16
"""The number of hosts whose queues are looked up at a time."""
_MOST_SLOW_HOSTS = 3
_SLOW_HOST_SECONDS = 60.0
"""A host whose URLs take less time is not shown."""
_SLOW_HOST_SHARE = 0.5
"""A host is shown if it takes at least this share of the slowest host's time."""


@dataclass(frozen=True, slots=True)
class Point:
    """The figures of a crawl at a monotonic time. `open`: URLs left to crawl, without retries."""

    time: float
    pages: int
    bytes: int
    open: int


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a crawl in `seconds`, and the grounds for this estimate."""

    seconds: float
    grounds: str


class Course:
    """The course of a crawl in the last two minutes. A limit of 0 means no limit."""

    def __init__(self, max_pages: int = 0, max_bytes: int = 0) -> None:
        self._max_pages = max_pages
        self._max_bytes = max_bytes
        self._points: deque[Point] = deque()
        self._announced: tuple[float, str] | None = None
        """The time of the ending, and its grounds."""
        self._steady_until = -math.inf

    def clear(self) -> None:
        """Forgets the course: the crawl was paused, held or ends."""
        self._points.clear()
        self._announced = None

    def add(self, point: Point, slowest: float = 0.0, retries: float = 0.0) -> None:
        """Adds a point.

        `slowest`: the least seconds that the host with the longest queue takes. `retries`: the most seconds until the
        last failed URL is tried again; 0 without a failed URL.
        """
        if self._points and point.time - self._points[-1].time < _POINT_SECONDS:
            return
        self._points.append(point)
        while len(self._points) > _LEAST_POINTS and point.time - self._points[0].time > _SPANS[0]:
            self._points.popleft()
        if ending := self._find(slowest, retries):
            self._steady_until = point.time + _KEPT_SECONDS
            self._announce(point.time, ending)
        elif point.time > self._steady_until:
            self._announced = None

    def ending(self, now: float) -> Ending | None:
        """Returns the ending at the monotonic time `now`, or None without an estimate."""
        if self._announced is None or self._announced[0] <= now:
            return None
        return Ending(self._announced[0] - now, self._announced[1])

    def _announce(self, now: float, ending: Ending) -> None:
        end = now + ending.seconds
        if self._announced and self._announced[0] > now:
            before = self._announced[0]
            step = _STEP * (before - now)
            end = min(max(end, before - step), before + step)
        self._announced = end, ending.grounds

    def _find(self, slowest: float, retries: float) -> Ending | None:
        """Returns the earliest ending that the course suggests."""
        points, endings = self._points, []
        for name, limit, value in (
            ("CRAWL_MAX_PAGES", self._max_pages, "pages"),
            ("CRAWL_MAX_BYTES", self._max_bytes, "bytes"),
        ):
            if not limit:
                continue
            course = [(point.time, float(getattr(point, value))) for point in points]
            if (rate := recent_rate(course)) is None:
                return None  # this limit may be reached first
            endings.append(Ending(max(0.0, limit - course[-1][1]) / rate, f"at {name}"))
        if rate := recent_rate([(point.time, -float(point.open)) for point in points]):
            seconds = points[-1].open / rate
            grounds = "the queue shrinks steadily" if seconds >= slowest else "the slowest host has most left"
            # the outcome of the retries is not known
            if max(seconds, slowest) >= retries:
                endings.append(Ending(max(seconds, slowest), grounds))
        return min(endings, key=lambda ending: ending.seconds, default=None)


def recent_rate(course: Sequence[tuple[float, float]]) -> float | None:
    """Returns the steady rate of the longest of a few spans until now; None without a steady span."""
    for span in _SPANS if course else ():
        since = course[-1][0] - span
        number = max(_LEAST_POINTS, sum(moment[0] >= since for moment in course))
        if rate := steady_rate(course[-number:]):
            return rate
    return None


def steady_rate(course: Sequence[tuple[float, float]]) -> float | None:
    """Returns the growth of a value per second; None unless it grows about equally in each part of its course.

    `course`: times in seconds, in order, and values.
    """
    if not course or (took := course[-1][0] - course[0][0]) < _LEAST_SECONDS:
        return None
    first, marks = course[0][0], [course[0]]
    for part in range(1, _PARTS):
        marks.append(min(course, key=lambda moment: abs(moment[0] - first - took * part / _PARTS)))
    marks.append(course[-1])
    if any(after[0] <= before[0] for before, after in itertools.pairwise(marks)):
        return None
    rates = [(after[1] - before[1]) / (after[0] - before[0]) for before, after in itertools.pairwise(marks)]
    if min(rates) <= 0 or max(rates) > _STEADY * min(rates):
        return None
    return (course[-1][1] - course[0][1]) / took


def about(seconds: float) -> str:
    """Returns a rough duration in words: "less than a minute", "about 4 min", "about 3 h", "about 12 days"."""
    if seconds < 60:
        return "less than a minute"
    for step, most, unit, name in (
        (60, 600, 60, "min"),
        (300, 7_200, 60, "min"),
        (3_600, 172_800, 3_600, "h"),
    ):
        if seconds < most:
            return f"about {round(seconds / step) * step // unit} {name}"
    return f"about {round(seconds / 86_400):,} days"


@dataclass(frozen=True, slots=True)
class SlowHost:
    """A host with `urls` to fetch, at most one in `gap` seconds."""

    host: str
    urls: int
    gap: float

    @property
    def seconds(self) -> float:
        """The least time that its URLs take."""
        return self.urls * self.gap


class SlowHosts:
    """Finds the slowest leased hosts of this worker: each look compares a few hosts with the slowest so far."""

    def __init__(self) -> None:
        self._slowest: list[SlowHost] = []
        self._from = 0

    async def look(self, frontier: Frontier, states: Sequence[LeasedHostState]) -> list[SlowHost]:
        """Returns the hosts to show, the slowest first; raises UNAVAILABLE."""
        before = {host.host for host in self._slowest}
        asked = [state for state in states if state.host in before] + self._next(states)
        gone = [LeasedHostState(host.host, Stage.DUE, host.gap, 0, has_more=True) for host in self._slowest]
        known = {state.host: state for state in gone + asked}
        queued = await frontier.queue_lengths(list(known))
        hosts = [SlowHost(state.host, state.urls + queued[state.host], state.gap) for state in known.values()]
        self._slowest = heapq.nlargest(_MOST_SLOW_HOSTS, hosts, key=lambda host: host.seconds)
        return shown(self._slowest)

    def _next(self, states: Sequence[LeasedHostState]) -> list[LeasedHostState]:
        """Returns the next few hosts of which the engine may have more URLs."""
        more = [state for state in states if state.has_more and state.gap > 0]
        first = self._from % max(1, len(more))
        self._from = first + _HOSTS_ASKED
        return (more[first:] + more[:first])[:_HOSTS_ASKED]


def shown(slowest: Sequence[SlowHost]) -> list[SlowHost]:
    """Returns the hosts to show, in order: slow hosts that take not much less time than the slowest."""
    least = max(_SLOW_HOST_SECONDS, _SLOW_HOST_SHARE * max((host.seconds for host in slowest), default=0.0))
    return [host for host in slowest if host.seconds >= least]


def hosts_line(hosts: Sequence[SlowHost]) -> str:
    """Returns the hosts in words: "held up by http://a.example (1,200 URLs, 10 s apart: about 3 h), ..."."""
    return "held up by " + ", ".join(
        f"{host.host} ({host.urls:,} URLs, {host.gap:.3g} s apart: {about(host.seconds)})" for host in hosts
    )
