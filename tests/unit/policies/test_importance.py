"""The arithmetic of credit: nothing is lost, and more credit is never worth less."""

from __future__ import annotations

from hypothesis import given, strategies as st

from webcrawl.policies.importance import (
    BEST,
    TOTAL,
    UNIT,
    WORST,
    give,
    importance,
    part_of_lambda,
    rise,
    worth,
)

credits = st.integers(0, TOTAL)
waiting = st.integers(1, 2**32)


@given(credits, st.integers(0, 10_000))
def test_what_a_page_gives_is_what_it_had(credit: int, links: int) -> None:
    given = give(credit, links)
    assert given.links + given.rest == credit
    assert given.links == given.each * links
    assert min(given) >= 0


@given(credits, st.integers(1, 10_000))
def test_lambda_gets_a_tenth_and_the_remainder(credit: int, links: int) -> None:
    rest = give(credit, links).rest
    assert credit // 10 <= rest < credit // 10 + links


def test_a_hundred_units_over_ten_links_are_nine_for_each() -> None:
    assert give(100, 10) == (9, 90, 10)
    assert give(100, 0) == (0, 0, 100)


@given(credits, st.integers(1, 1000))
def test_urls_that_wait_empty_lambda_in_nearly_equal_parts(pool: int, number: int) -> None:
    parts = []
    for left in range(number, 0, -1):
        parts.append(part_of_lambda(pool, left))
        pool -= parts[-1]
    assert pool == 0
    assert max(parts) - min(parts) <= 1


@given(credits, credits, waiting)
def test_more_credit_is_worth_more(one: int, other: int, number: int) -> None:
    less, more = sorted((one, other))
    assert worth(less, number) <= worth(more, number)
    assert rise(worth(less, number)) <= rise(worth(more, number))


@given(st.integers(1, 2**30))
def test_the_mean_credit_is_worth_one_unit(number: int) -> None:
    assert UNIT * (1 - number / TOTAL) - 1 <= worth(TOTAL // number, number) <= UNIT
    assert importance(UNIT) == 1.0


def test_each_factor_of_eight_is_a_level() -> None:
    least = [UNIT // 8 * 8**steps for steps in range(BEST - WORST)]
    assert [rise(worth) for worth in (0, *least)] == [*range(WORST, BEST + 1)]
    assert [rise(worth - 1) for worth in least] == [*range(WORST, BEST)]
    assert rise(1000 * least[-1]) == BEST
