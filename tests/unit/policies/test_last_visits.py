"""URLs that were never visited come before those visited longest ago; equal ages are ordered by weight."""

from __future__ import annotations

from itertools import pairwise

from tests.cases import cases
from webcrawl.policies.priorities import LOWEST, level_of_visit

DAY = 86_400.0


def test_every_visited_url_comes_after_every_other() -> None:
    assert min(level_of_visit(0, age) for age in (0.0, 1.0, DAY, 1e12)) > LOWEST


@cases("age", [2.0, 60.0, DAY, 365 * DAY])
def test_a_greater_age_comes_first_whatever_the_level(age: float) -> None:
    assert level_of_visit(LOWEST, 1.5 * age) < level_of_visit(0, age)


@cases("age", [-5.0, 0.0, 3.0, DAY])
def test_equal_ages_are_ordered_by_level(age: float) -> None:
    levels = [level_of_visit(level, age) for level in range(LOWEST + 1)]
    assert all(before < after for before, after in pairwise(levels))
    assert level_of_visit(-7, age) == levels[0]
