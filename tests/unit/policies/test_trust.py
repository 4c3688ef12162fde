"""Trust is divided, never made; a group of hosts has no more than what reaches it from others."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from webcrawl.policies.trust import (
    FEW,
    FIRST_COST,
    KEPT,
    SLACK,
    STRAY_SHARE,
    Fairness,
    Standing,
    give,
)

amounts = st.floats(0, 1e6)
counts = st.integers(0, 1000)


@given(amounts, counts, counts)
def test_a_gift_takes_what_it_gives_and_a_part_is_lost(left: float, given_to: int, hosts: int) -> None:
    gift = give(left, given_to, hosts)
    assert 0 <= gift.left <= left
    assert gift.each * hosts == pytest.approx(KEPT * (left - gift.left), abs=1e-6)


@given(amounts, st.lists(st.integers(1, 20), max_size=20))
def test_many_gifts_leave_what_one_gift_to_as_many_hosts_leaves(left: float, gifts: list[int]) -> None:
    rest, given_to = left, 0
    for hosts in gifts:
        rest, given_to = give(rest, given_to, hosts).left, given_to + hosts
    assert rest == pytest.approx(left * FEW / (FEW + given_to))


@given(st.integers(1, 30), st.integers(1, 12))
def test_all_hosts_of_a_farm_have_less_than_a_multiple_of_what_reached_it(links: int, depth: int) -> None:
    """Each host of the farm links to new hosts of the farm."""
    each, hosts, everything = 1.0, 1, 0.0
    for _ in range(depth):
        everything += each * hosts
        each, hosts = give(each, 0, links).each, hosts * links
    assert everything < 1 / (1 - KEPT)


def test_nobody_waits_without_trust() -> None:
    assert Fairness(9.0, 4).after(Standing(3, 500), limited=True) == Fairness()


def test_the_most_cost_grows_with_the_crawl_and_strays_have_a_share_of_a_limited_one() -> None:
    early, late = Standing(3, 10, 0, 2.0), Standing(3, 10_000, 100, 50.0, 9e9)
    assert Fairness().after(early, limited=False) == Fairness(FIRST_COST, -1)
    assert Fairness().after(late, limited=True) == Fairness(SLACK * 200, int(STRAY_SHARE * 10_000) - 100)
    assert Fairness().after(late._replace(strays=9_000), limited=True).strays == 0


def test_the_most_cost_follows_those_who_wait_if_nobody_else_has_urls() -> None:
    waiting = Standing(0, 10, 0, 2.0, 700.0)
    raised = Fairness(FIRST_COST).after(waiting, limited=True).most_cost
    assert raised > 700
    kept = Fairness(raised).after(waiting._replace(better=1, least=math.inf), limited=True).most_cost
    assert FIRST_COST < kept < raised


def test_a_moment_without_urls_of_trusted_hosts_is_soon_over() -> None:
    fairness = Fairness().after(Standing(0, 10, 0, 2.0, 1e15), limited=True)
    assert fairness.most_cost > 1e15
    looks = 0
    while fairness.most_cost > 2 * FIRST_COST:
        fairness, looks = fairness.after(Standing(1, 10, 0, 2.0, 1e15), limited=True), looks + 1
        assert looks > 5 or fairness.most_cost > 1e15, "hosts that were let in have some looks to be leased"
    assert looks < 150


def test_shards_add_up() -> None:
    total = Standing(1, 2, 3, 4.0, 5.0).plus(Standing(10, 20, 30, 40.0))
    assert total == Standing(11, 22, 33, 44.0, 5.0)
