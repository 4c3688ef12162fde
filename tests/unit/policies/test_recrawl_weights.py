"""Weights that an operator gives to pages of a recrawl."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.errors import ConfigurationError
from webcrawl.policies.change_rates import ChangeHistory
from webcrawl.policies.crawl_value import Bounds, RecrawlCandidate, next_visit_days
from webcrawl.policies.recrawl_weights import RecrawlWeights
from webcrawl.policies.revisit_dates import FIRST_THRESHOLD, KnownPage, RevisitDates

FILE = """
# tiers of the index
https://shop.example          20
https://shop.example/product/*\t5   # all products
https://shop.example/product/old*  0
http://*/login*               0.5
archive.example               0.1
new.archive.example           3
127.0.0.9                     2
"""


@pytest.fixture
def weights(tmp_path: Path) -> RecrawlWeights:
    path = tmp_path / "weights.txt"
    path.write_text(FILE)
    return RecrawlWeights.of_setting(f"@{path}")


@pytest.mark.parametrize(
    "host, path, weight",
    [
        ("https://shop.example", "/", 20),
        ("https://shop.example", "/product/7?a=1", 5),
        ("https://shop.example", "/product/old/7", 0),
        ("https://shop.example", "/about", 1),
        ("http://shop.example:8080", "/login", 0.5),
        ("https://www.archive.example", "/", 0.1),
        ("https://a.new.archive.example:8443", "/", 3),
        ("https://notarchive.example", "/", 1),
        ("http://127.0.0.9:8080", "/", 2),
    ],
)
def test_the_most_exact_line_counts(weights: RecrawlWeights, host: str, path: str, weight: float) -> None:
    assert weights.of_url(host, path) == weight


@pytest.mark.parametrize(
    "line, what",
    [
        ("https://shop.example/", "is no URL, pattern or domain with a weight"),
        ("shop.example many", "is no URL, pattern or domain with a weight"),
        ("shop.example -1", "is no URL, pattern or domain with a weight"),
        ("shop.example nan", "is no URL, pattern or domain with a weight"),
        ("shop.example/a 2", "has a path"),
        ("https://[/ 2", "is not a URL"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, line: str, what: str) -> None:
    path = tmp_path / "weights.txt"
    path.write_text(f"# comment\nexample.org 2\n{line}\n")
    with pytest.raises(ConfigurationError) as error:
        RecrawlWeights.of_setting(f"@{path}")
    assert f"RECRAWL_WEIGHTS, {path}, line 3: " in str(error.value)
    assert what in str(error.value)


@cases("value", ["weights.txt", "details.", "a b", "@/no/such/file"])
def test_wrong_settings_are_named(value: str) -> None:
    with pytest.raises(ConfigurationError, match="RECRAWL_WEIGHTS.*" + value):
        RecrawlWeights.of_setting(value)


@given(st.none() | st.text() | st.floats() | st.integers() | st.booleans() | st.lists(st.integers()))
def test_stored_values_that_are_no_weights_count_as_1(stored: object) -> None:
    weight = RecrawlWeights("clicks").of_row(stored)
    assert 0 <= weight < math.inf
    assert weight == 1 or weight == stored


def test_new_details_count_before_stored_ones() -> None:
    weights = RecrawlWeights("details.clicks")
    assert weights.of_row(2, {"clicks": 3}) == 3
    assert weights.of_row(2, {"other": 3}) == weights.of_row(2, None) == 2
    assert RecrawlWeights("clicks").of_row(2, {"clicks": 3}) == 2


@given(st.floats(0.01, 100), st.sampled_from([0.1, 1.0, 10.0]))
def test_a_weight_counts_as_importance(weight: float, importance: float) -> None:
    dates = RevisitDates(Bounds())
    weighed = KnownPage("http://a.test", "/a", importance, None, weight)
    important = KnownPage("http://a.test", "/a", importance * weight, None)
    if importance * weight >= 0.05:  # the least importance
        assert dates.next_days(weighed) == pytest.approx(dates.next_days(important), rel=0.02)
    assert dates.candidate(weighed).weight == pytest.approx(importance * weight)


def test_pages_of_weight_0_come_back_by_the_longest_interval_alone() -> None:
    page = RevisitDates(Bounds()).candidate(KnownPage("http://a.test", "/a", None, None, 0.0))
    signals = page.evidence._replace(unannounced=0.5, announcements=1.0, wear=3.0, step=1.0)
    for candidate in (page, RecrawlCandidate(0.0, page.rate, signals, new_links=100.0)):
        days = next_visit_days(candidate, ChangeHistory(), FIRST_THRESHOLD.value, Bounds(1, 30))
        assert days == 30


def test_the_weights_of_the_file_and_of_the_database_are_multiplied(weights: RecrawlWeights) -> None:
    dates = RevisitDates(Bounds(), weights=weights)
    page = KnownPage("https://shop.example", "/product/1", 2.0, None, 3.0)
    assert dates.weight(page) == 2 * 3 * 5
