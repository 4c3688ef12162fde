"""Rates of change: exact posteriors, estimates of many simulated pages, priors of pools."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, strategies as st

from webcrawl.policies.change_rates import (
    FIRST_GUESS,
    MEMORY,
    ChangeHistory,
    ChangeRate,
    PageVisit,
    RatePool,
    digamma,
    pooled_prior,
)

PRIOR = ChangeRate(0.5, 5.0)
days = st.floats(0.01, 300)
rates = st.builds(ChangeRate, st.floats(0.1, 50), st.floats(0.05, 3000))
visits = st.lists(st.builds(PageVisit, days, st.booleans(), gone=st.booleans()), max_size=40)


def after(*visits: PageVisit) -> ChangeHistory:
    history = ChangeHistory()
    for visit in visits:
        history = history.after(visit)
    return history


def posterior_mean(prior: ChangeRate, visits: list[PageVisit]) -> float:
    """The mean of the posterior on a grid of rates, in which older visits fade."""
    rates = np.exp(np.linspace(math.log(1e-9), math.log(1e4), 20_000))
    logarithm = prior.shape * np.log(rates) - prior.days * rates
    for age, visit in enumerate(reversed(visits)):
        likelihood = np.log(-np.expm1(-rates * visit.days)) if visit.changed else -rates * visit.days
        logarithm += (1 - 1 / MEMORY) ** age * likelihood
    weights = np.exp(logarithm - logarithm.max())
    return float((rates * weights).sum() / weights.sum())


@given(st.floats(0.05, 500))
def test_digamma_is_that_of_scipy(value: float) -> None:
    from scipy import special  # slow, and every process of tests imports this file

    assert digamma(value) == pytest.approx(float(special.digamma(value)), abs=1e-5)


@given(rates, days)
def test_fresh_days_are_the_integral_of_fresh(rate: ChangeRate, days: float) -> None:
    times = np.append(0, np.geomspace(min(days, rate.days) / 1e4, days, 20_000))
    fresh = np.exp(-rate.shape * np.log1p(times / rate.days))
    assert rate.fresh_days(days) == pytest.approx(np.trapezoid(fresh, times), rel=1e-3)
    assert rate.fresh(days) == pytest.approx(fresh[-1])


def test_fresh_days_have_no_hole_at_shape_1() -> None:
    assert ChangeRate(1.0, 3.0).fresh_days(6.0) == pytest.approx(3 * math.log(3))
    assert ChangeRate(1.0, 3.0).fresh_days(6.0) == pytest.approx(ChangeRate(1 + 1e-7, 3.0).fresh_days(6.0))


@given(st.lists(days, max_size=20))
def test_visits_without_a_change_give_the_exact_posterior(between: list[float]) -> None:
    visits = [PageVisit(days, changed=False) for days in between]
    assert after(*visits).rate(PRIOR).mean == pytest.approx(posterior_mean(PRIOR, visits), rel=0.01)


@given(st.integers(0, 12), st.integers(1, 12), st.floats(0.05, 50))
def test_visits_at_regular_times_give_nearly_the_exact_posterior(
    quiet: int, changed: int, days: float
) -> None:
    """The estimate is too low, by more the more changes are expected between two visits."""
    visits = [PageVisit(days, changed=True)] * changed + [PageVisit(days, changed=False)] * quiet
    exact = posterior_mean(PRIOR, visits)
    too_low = 1 - after(*visits).rate(PRIOR).mean / exact
    assert -0.001 < too_low < min(0.01 + 0.05 * days * exact, 0.4)


def test_visits_at_irregular_times_give_nearly_the_true_rate() -> None:
    source = random.Random(1)
    for rate in (0.02, 0.2, 2.0):
        means = []
        for _ in range(300):
            gaps = [math.exp(source.uniform(-1, 2)) for _ in range(25)]
            visits = [PageVisit(gap, source.random() > math.exp(-rate * gap)) for gap in gaps]
            means.append(after(*visits).rate(ChangeRate(0.4, 0.4 / rate)).mean)
        assert np.median(means) == pytest.approx(rate, rel=0.25)


def test_a_change_after_a_time_in_which_it_was_certain_tells_nothing() -> None:
    often = ChangeRate(40.0, 2.0)
    rate = after(*[PageVisit(100.0, changed=True)] * 20).rate(often)
    assert tuple(rate) == pytest.approx(tuple(often), rel=0.01)


def test_changes_at_known_times_count_whole() -> None:
    history = after(*[PageVisit(3.0, changed=True, dated=2.0)] * 10)
    assert 8 < history.dated < 10
    assert history.rate(PRIOR) == (PRIOR.shape + history.dated, PRIOR.days + 2 * history.dated)


def test_recent_visits_count_more() -> None:
    quiet, busy = [PageVisit(1.0, changed=False)] * 40, [PageVisit(1.0, changed=True)] * 10
    assert after(*quiet, *busy).rate(PRIOR).mean > 2 * after(*busy, *quiet).rate(PRIOR).mean


def test_a_dead_page_tells_nothing_of_its_rate_until_it_returns() -> None:
    visits = [PageVisit(1.0, changed=False), PageVisit(2.0, changed=True)]
    gone = after(*visits, *[PageVisit(5.0, changed=True, gone=True)] * 3)
    assert (gone.gone, gone.visits) == (3, 5)
    assert gone.rate(PRIOR) == after(*visits).rate(PRIOR)
    returned = gone.after(PageVisit(5.0, changed=False))
    assert returned.gone == 0
    assert returned.changes > gone.changes


@given(visits, rates)
def test_any_history_is_kept_as_json_and_has_a_rate(visits: list[PageVisit], prior: ChangeRate) -> None:
    history = after(*visits)
    history, _ = history.pooled(history.rate(prior))
    assert ChangeHistory(*json.loads(json.dumps(history))) == history
    rate = history.rate(prior)
    assert 0 < rate.mean < math.inf
    assert 0 < rate.shape < math.inf


@given(visits, days)
def test_a_visit_with_a_change_tells_of_a_higher_rate_than_without(
    visits: list[PageVisit], days: float
) -> None:
    history = after(*visits)._replace(gone=0)
    changed, same = (history.after(PageVisit(days, changed)).rate(PRIOR).mean for changed in (True, False))
    assert changed > same


def test_pools_of_workers_add_up() -> None:
    """A page counts once in a pool, with its last rate, whoever visited it."""
    first, second = RatePool(), RatePool()
    history = after(PageVisit(2.0, changed=True))
    history, delta = history.pooled(history.rate(PRIOR))
    first = first.merged(delta)
    history = history.after(PageVisit(9.0, changed=False))
    history, delta = history.pooled(history.rate(PRIOR))
    second = second.merged(delta)
    rate = history.rate(PRIOR)
    assert first.merged(second) == pytest.approx(RatePool(1, rate.mean, rate.mean_log))


def test_a_pool_without_pages_has_the_wider_prior() -> None:
    assert RatePool().prior(PRIOR) == PRIOR
    assert pooled_prior(RatePool(), RatePool()) == FIRST_GUESS


@pytest.mark.parametrize(
    ("truth", "shapes"),
    [
        (ChangeRate(0.3, 2.0), (0.2, 0.5)),
        (ChangeRate(3.0, 90.0), (1.0, 5.0)),
        (
            ChangeRate(20.0, 10.0),
            (2.0, 30.0),
        ),  # the steps of EM are small while all rates seem to be the same
    ],
)
def test_a_pool_learns_the_rates_of_its_pages(truth: ChangeRate, shapes: tuple[float, float]) -> None:
    source = random.Random(3)
    pool = RatePool()
    rates = [source.gammavariate(truth.shape, 1 / truth.days) for _ in range(400)]
    histories = [ChangeHistory()] * len(rates)
    for _ in range(12):
        for page, rate in enumerate(rates):
            gap = source.uniform(0.3, 3) / truth.mean
            history = histories[page].after(PageVisit(gap, source.random() > math.exp(-rate * gap)))
            histories[page], delta = history.pooled(history.rate(pool.prior(FIRST_GUESS)))
            pool = pool.merged(delta)
    prior = pool.prior(FIRST_GUESS)
    assert prior.mean == pytest.approx(truth.mean, rel=0.3)
    assert shapes[0] < prior.shape < shapes[1]


def test_a_small_pool_stays_near_the_wider_prior() -> None:
    few = RatePool(2, 2 * 3.0, 2 * math.log(3.0))
    many = RatePool(2000, 2000 * 3.0, 2000 * math.log(2.9))
    assert PRIOR.mean < few.prior(PRIOR).mean < 1.0
    assert many.prior(PRIOR).mean == pytest.approx(3.0, rel=0.02)
