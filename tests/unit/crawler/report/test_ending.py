"""The estimate of a crawl's end: right for a steady course, slow to move, and none without grounds."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.crawler.report.ending import Course, Ending, Point, about, steady_rate

steps = st.lists(
    st.tuples(st.floats(0.2, 30), st.integers(0, 500), st.integers(-500, 500)), min_size=1, max_size=80
)
QUEUE = "the queue shrinks steadily"


def followed(course: Course, points: list[Point]) -> list[tuple[float, Ending | None]]:
    """What is told after each point, with its time."""
    told = []
    for point in points:
        course.add(point)
        told.append((point.time, course.ending(point.time)))
    return told


@given(
    st.floats(0.05, 1_000),
    st.integers(1, 10**6),
    st.sampled_from([1.0, 10.0, 60.0]),
    st.randoms(use_true_random=False),
)
def test_a_steady_course_ends_when_its_rate_says(
    rate: float, left: int, interval: float, random: Random
) -> None:
    """Whether updates are close together, as in a panel, or far apart."""
    times = [interval * n for n in range(80 if interval == 1 else 8)]
    pages = [round(rate * (time + random.uniform(-0.2, 0.2))) for time in times]
    points = [
        Point(time, done, 0, left + 10_000 + round(rate * (times[-1] - time)))
        for time, done in zip(times, pages, strict=True)
    ]
    last = followed(Course(max_pages=pages[-1] + left), points)[-1][1]
    if rate >= 2:
        assert last is not None
    if last is not None:
        whole = (left + 10_000) / rate
        assert last.grounds in ("at CRAWL_MAX_PAGES", QUEUE)
        assert last.seconds == pytest.approx(min(left / rate, whole), rel=0.5, abs=5)


@given(steps)
def test_what_is_told_moves_slowly_and_is_never_past(course: list[tuple[float, int, int]]) -> None:
    time, pages, left, points = 0.0, 0, 5_000, []
    for took, more, change in course:
        time, pages, left = time + took, pages + more, max(0, left + change)
        points.append(Point(time, pages, pages * 1_000, left))
    told = followed(Course(max_pages=20_000, max_bytes=10**7), points)
    for (before, one), (after, other) in pairwise(told):
        if one and other and one.seconds > after - before:
            left_before = one.seconds - (after - before)
            moved = abs(after + other.seconds - before - one.seconds)
            assert moved <= 0.1 * left_before + 1e-6
    assert all(ending.seconds > 0 for _, ending in told if ending)


@cases(("growth", "pages"), [(0, 0), (0, 9), (1, 9), (100, 0)])
def test_nothing_is_told_of_a_growing_queue_without_limits(growth: int, pages: int) -> None:
    points = [Point(float(n), pages * n, 0, growth * n) for n in range(130)]
    assert all(ending is None for _, ending in followed(Course(), points))


def test_nothing_is_told_too_early_or_of_an_unsteady_course() -> None:
    early = [Point(float(n), n, 0, 1_000 - n) for n in range(20)]
    assert all(ending is None for _, ending in followed(Course(max_pages=100), early))
    bursts = [Point(float(n), 100 * (n // 50), 0, 1_000 - n) for n in range(120)]
    assert all(ending is None for _, ending in followed(Course(max_pages=1_000), bursts))


def test_a_queue_that_grew_at_first_is_told_of_soon() -> None:
    points = [Point(float(n), n, 0, 100 * n if n < 5 else 505 - n) for n in range(60)]
    told = dict(followed(Course(), points))
    assert all(told[float(n)] is None for n in range(25))
    assert told[59.0] == Ending(pytest.approx(446, abs=50), QUEUE)


def test_an_ending_is_withdrawn_when_the_crawl_stands_still() -> None:
    course = Course(max_pages=1_000)
    points = [Point(float(n), min(n, 60), 0, 0) for n in range(240)]
    told = followed(course, points)
    assert told[60][1] == Ending(pytest.approx(940), "at CRAWL_MAX_PAGES")
    assert told[200][1] is None
    course = Course(max_pages=1_000)
    followed(course, points[:60])
    course.clear()
    assert course.ending(60.0) is None


def test_the_first_end_is_told_and_the_slowest_host_counts() -> None:
    points = [Point(float(n), n, 1_000 * n, 1_000 - n) for n in range(60)]
    for limits, seconds, grounds in (
        ({"max_pages": 500}, 441, "at CRAWL_MAX_PAGES"),
        ({"max_pages": 500, "max_bytes": 100_000}, 41, "at CRAWL_MAX_BYTES"),
        ({"max_pages": 5_000}, 941, QUEUE),
    ):
        told = followed(Course(**limits), points)[-1][1]
        assert told is not None and told.grounds == grounds
        assert told.seconds == pytest.approx(seconds, abs=1)
    course = Course()
    for point in points:
        course.add(point, slowest=7_000)
    assert course.ending(59.0) == Ending(pytest.approx(7_000, abs=60), "the slowest host has most left")


@pytest.mark.parametrize(("slowest", "is_told"), [(0.0, False), (1_500.0, True)])
def test_nothing_is_told_of_a_queue_that_ends_before_the_retries(slowest: float, is_told: bool) -> None:
    course = Course()
    for n in range(60):
        course.add(Point(float(n), n, 0, 1_000 - n), slowest, retries=1_200)
    assert bool(course.ending(59.0)) == is_told


@given(st.lists(st.tuples(st.floats(0, 1_000), st.floats(-1e6, 1e6)), max_size=30))
def test_a_steady_rate_is_positive(course: list[tuple[float, float]]) -> None:
    rate = steady_rate(sorted(course))
    assert rate is None or rate > 0


@cases(
    ("seconds", "words"),
    [
        (3, "less than a minute"),
        (200, "about 3 min"),
        (1_000, "about 15 min"),
        (5_000, "about 85 min"),
        (8_000, "about 2 h"),
        (90_000, "about 25 h"),
        (10**6, "about 12 days"),
    ],
)
def test_durations_that_are_not_exact(seconds: float, words: str) -> None:
    assert about(seconds) == words
