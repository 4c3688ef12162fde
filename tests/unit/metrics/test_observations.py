"""Histograms count what they are given, in buckets whose bounds are inclusive."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from webcrawl.metrics.observations import BOUNDS, Histogram, Observations

DURATIONS = st.floats(0, 1000) | st.sampled_from(BOUNDS)


@given(st.lists(DURATIONS))
def test_buckets_count_durations_up_to_their_bounds(durations: list[float]) -> None:
    histogram = Histogram()
    for seconds in durations:
        histogram.observe(seconds)
    expected = [sum(seconds <= bound for seconds in durations) for bound in BOUNDS]
    assert list(histogram.buckets()) == [*expected, len(durations)]
    assert histogram.count == len(durations)
    assert histogram.total == pytest.approx(sum(durations))


def test_a_clock_that_was_set_back_takes_nothing_from_the_sum() -> None:
    histogram = Histogram()
    histogram.observe(-3600.0)
    assert (histogram.total, next(histogram.buckets())) == (0.0, 1)


def test_a_block_that_raises_is_observed_too() -> None:
    observed = Observations()
    with pytest.raises(ValueError), observed.timed("dns", "http://a.test/"):
        raise ValueError
    assert observed.stages["dns"].count == 1
