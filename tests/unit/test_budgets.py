"""The arithmetic of budgets: what names and domains may have, and how much those over a budget are slowed down."""

from __future__ import annotations

from hypothesis import given, strategies as st

from webcrawl.policies.budgets import COST, FIRST, LONGEST, MOST_DOMAINS, PER_CUBE, Spending, cost, slowdown

NUMBERS = st.integers(0, 10**6)


def test_a_budget_grows_with_the_domains_that_link_to_its_owner() -> None:
    assert [Spending(0, n).pages for n in (0, 1, 2, 10)] == [
        FIRST,
        FIRST + PER_CUBE,
        FIRST + 8 * PER_CUBE,
        FIRST + 1000 * PER_CUBE,
    ]
    assert Spending(0, 10**6).pages == FIRST + MOST_DOMAINS**3 * PER_CUBE


def test_a_budget_is_spent_by_its_last_page() -> None:
    pages = Spending(domains=1).pages
    assert not Spending(COST * pages - 1, 1).is_over
    assert Spending(COST * pages, 1).is_over
    assert not Spending(COST * pages, 2).is_over


def test_an_important_page_costs_less() -> None:
    assert [cost(importance, MOST_DOMAINS) for importance in (None, 0.0, 0.3, 1.0)] == [COST] * 4
    important = (2.0, 4.0, 8.0, 1000.0)
    assert [cost(importance, MOST_DOMAINS) for importance in important] == [COST // 2, COST // 4, 1, 1]
    # what an owner's own pages give each other is no merit
    assert [cost(importance, 0) for importance in important] == [COST] * 4
    assert [cost(importance, 1) for importance in important] == [COST // 2] * 4


def test_a_few_that_sank_beside_many_others_are_slowed_down_most() -> None:
    assert slowdown(50, 0, 0).gaps(1) == 1.0
    assert slowdown(50, 5, 0).gaps(1) == slowdown(50, 0, 5).gaps(1) == 20.0
    assert slowdown(50, 100, 0).gaps(1) == 1.0
    assert slowdown(10**6, 1, 1).gaps(1) == LONGEST


def test_who_has_spent_its_budget_several_times_is_slowed_down_more() -> None:
    spent = COST * Spending().pages
    budgets = [0.9, 1, 1.15, 1.25, 1.5, 2, 10, 1000]
    assert [Spending(int(n * spent)).penalty for n in budgets] == [0, 1, 1, 2, 4, 16, 1024, 1024]
    assert [slowdown(10, 10, 0).gaps(penalty) for penalty in (1, 4, 32)] == [2.0, 8.0, LONGEST]


def test_nobody_waits_where_most_are_over_their_budgets() -> None:
    assert slowdown(1, 99, 0).gaps(32) == 1.0
    assert slowdown(0, 99, 0).gaps(32) == 1.0


def test_a_domain_asks_more_hosts_at_once_beside_few_others() -> None:
    assert slowdown(0, 0, 2).at_once == 0.0
    assert [slowdown(0, others, 1).at_once for others in (1, 2, 16, 640)] == [16.0, 8.0, 1.0, 1.0]


@given(better=NUMBERS, sunk=NUMBERS, wide=NUMBERS, penalty=st.integers(1, LONGEST))
def test_gaps_never_shrink_and_stay_bounded(better: int, sunk: int, wide: int, penalty: int) -> None:
    factor = slowdown(better, sunk, wide).gaps(penalty)
    assert 1.0 <= factor <= LONGEST
    assert slowdown(better, sunk, wide).gaps(penalty + 1) >= factor
    if sunk or wide:
        assert slowdown(better, sunk + 1, wide).gaps(penalty) <= factor


@given(spent=NUMBERS, domains=st.integers(0, 200))
def test_more_links_never_make_a_budget_smaller(spent: int, domains: int) -> None:
    here, more = Spending(spent, domains), Spending(spent, domains + 1)
    assert more.pages >= here.pages
    assert here.is_over or not more.is_over
    assert f"its budget is {here.pages:,};" in str(here)
