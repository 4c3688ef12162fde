"""A clock that runs faster in the hours and on the days in which the pages of a host change.

Many pages change in the working hours of their authors (of feeds: Sia, Cho and Cho, "Efficient Monitoring Algorithm for
Fast News Alerts", TKDE 2007). A Poisson process whose rate follows the week is one with a constant rate, if time is
measured by its cumulative rate (Cinlar, "Introduction to Stochastic Processes", 1975, 4.7). So the other policies stay
as they are, and count the days of this clock:

    days = clock.days(last_visit, now)                  # for PageVisit
    due = clock.time(last_visit, next_days)             # after next_visit_days
    profile = profile.merged(week_of(visit, last_visit, rate, clock))

Times are seconds since 1970, in UTC. Without evidence, the clock is an ordinary one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import OrderedDict
from itertools import accumulate
from typing import NamedTuple

from webcrawl.policies.change_rates import DAY, ChangeRate, PageVisit

WEEK_HOURS = 168
LONGEST_VISIT = 1.5
"""In days: a longer time between two visits tells too little of the hour of a change."""

_HOUR, _WEEK = DAY / 24, 7 * DAY
_MONDAY = 4 * DAY
"""1970 began on a Thursday."""
_DOUBT = 8.0
"""In an hour of the day or a day of the week, so many changes count as expected and seen before any visit."""
_MOST_CHANGES = 4000.0
_LEAST_CHANGES = 8.0
"""Fewer changes of a host tell nothing of its week."""
_VISITS = 16
"""The clock of a host is set anew after so many visits."""
_MOST_HOSTS = 2_000
"""The hosts whose clocks are kept; each takes about 10 KB."""


class WeekProfile(NamedTuple):
    """Changes of a host by hour of the day and by day of the week: those that were seen, and those expected.

    Each has 24 numbers for the hours and 7 for the days, from Monday. What is expected follows from the rates of the
    pages by an ordinary clock, so fast pages do not count more.
    """

    seen: tuple[float, ...] = (0.0,) * 31
    expected: tuple[float, ...] = (0.0,) * 31

    def merged(self, other: WeekProfile) -> WeekProfile:
        """Returns the sum of two profiles; large sums are halved, so that new habits are noticed."""
        seen = tuple(map(float.__add__, self.seen, other.seen))
        expected = tuple(map(float.__add__, self.expected, other.expected))
        if sum(expected) > 2 * _MOST_CHANGES:
            seen, expected = tuple(count / 2 for count in seen), tuple(count / 2 for count in expected)
        return WeekProfile(seen, expected)

    def clock(self) -> ChangeClock:
        """Returns the clock of this profile; to be kept for many visits."""
        # wrong rates of pages are no habit of the host
        ratio = sum(self.seen) / sum(self.expected) if any(self.expected) else 1.0
        times = [
            (seen + _DOUBT) / (ratio * expected + _DOUBT)
            for seen, expected in zip(self.seen, self.expected, strict=True)
        ]
        hours = [times[hour % 24] * times[24 + hour // 24] for hour in range(WEEK_HOURS)]
        scale = 7 / sum(hours)
        return ChangeClock((0.0, *accumulate(hour * scale for hour in hours)))


class ChangeClock:
    """A clock by which a week has seven days, too, but its hours differ.

    `ends`: the days of the clock that have passed at the beginning of each hour of a week from Monday, and at its end.
    """

    def __init__(self, ends: tuple[float, ...]) -> None:
        self._ends = ends

    def days(self, start: float, end: float) -> float:
        """Returns the days of this clock between two times."""
        return self._passed(end) - self._passed(start)

    def time(self, start: float, days: float) -> float:
        """Returns the time at which so many days of this clock have passed."""
        weeks, rest = divmod(self._passed(start) + days, 7.0)
        hour = min(WEEK_HOURS, bisect_right(self._ends, rest)) - 1
        part = (rest - self._ends[hour]) / (self._ends[hour + 1] - self._ends[hour])
        return max(start, _MONDAY + weeks * _WEEK + (hour + part) * _HOUR)

    def speed(self, hour: int) -> float:
        """Returns how many hours of this clock pass in an hour of the week, from Monday."""
        return (self._ends[hour + 1] - self._ends[hour]) * 24

    def _passed(self, time: float) -> float:
        weeks, rest = divmod(time - _MONDAY, _WEEK)
        hour = min(WEEK_HOURS - 1, int(rest / _HOUR))
        return weeks * 7 + self._ends[hour] + (rest / _HOUR - hour) * self.speed(hour) / 24


def week_of(visit: PageVisit, last_visit: float, rate: ChangeRate, clock: ChangeClock) -> WeekProfile:
    """Returns what a visit adds to the profile of its host.

    `visit`: its days are those of the clock. `last_visit`: the time of the visit before. A change is divided among the
    hours by the speed of the clock so far (the expectation step of EM).
    """
    until = clock.time(last_visit, visit.days)
    if visit.gone or until - last_visit > LONGEST_VISIT * DAY or until <= last_visit:
        return WeekProfile()
    days = (until - last_visit) / DAY
    probability = 1 - rate.fresh(days)
    seen, expected = [0.0] * 31, [0.0] * 31
    first = math.floor((last_visit - _MONDAY) / _HOUR)
    last = math.floor((until - _MONDAY) / _HOUR)
    for number in range(first, last + 1):
        hour = number % WEEK_HOURS
        begin = max(last_visit, _MONDAY + number * _HOUR)
        part = (min(until, _MONDAY + (number + 1) * _HOUR) - begin) / DAY
        for slot in (hour % 24, 24 + hour // 24):
            expected[slot] += probability * part / days
            if visit.changed:
                seen[slot] += part * clock.speed(hour) / visit.days
    return WeekProfile(tuple(seen), tuple(expected))


class HostClocks:
    """Keeps the clocks of the hosts that were visited last, from the visits of one process."""

    def __init__(self) -> None:
        self._weeks: OrderedDict[str, tuple[WeekProfile, ChangeClock | None, int]] = OrderedDict()

    def of(self, host: str) -> ChangeClock | None:
        """Returns the clock of a host; None for an ordinary one, as long as there is no evidence."""
        _, clock, _ = self._weeks.get(host, (None, None, 0))
        return clock

    def learn(self, host: str, visit: PageVisit, last_visit: float, rate: ChangeRate) -> None:
        """Learns from a visit; see `week_of`."""
        profile, clock, visits = self._weeks.pop(host, (WeekProfile(), None, 0))
        profile = profile.merged(week_of(visit, last_visit, rate, clock or ORDINARY))
        if visits % _VISITS == 0 and sum(profile.seen[:24]) >= _LEAST_CHANGES:
            clock = profile.clock()
        self._weeks[host] = profile, clock, visits + 1
        if len(self._weeks) > _MOST_HOSTS:
            self._weeks.popitem(last=False)


ORDINARY = WeekProfile().clock()
"""The clock without evidence."""
