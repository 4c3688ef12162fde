"""The shares of classes of fetches, without an engine."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from webcrawl.policies.traffic import (
    CHECKS,
    CLASSES,
    COVERAGE_CHK,
    COVERAGE_GET,
    FRESHNESS_CHK,
    FRESHNESS_GET,
    UPDATE_CHK,
    ClassShares,
    Traffic,
)

weights = st.dictionaries(st.sampled_from(CLASSES), st.integers(0, 100), min_size=1).filter(
    lambda table: any(table.values())
)


def fetch(shares: ClassShares, times: int, available: tuple[str, ...] = CLASSES) -> Counter[str]:
    """Fetches the class with the next turn, so many times."""
    fetched = Counter[str]()
    for _ in range(times):
        name = min(available, key=shares.passed)
        shares.start(name)
        fetched[name] += 1
    return fetched


@given(weights, st.integers(1, 400))
def test_each_class_has_its_share_at_any_time(table: dict[str, int], times: int) -> None:
    fetched = fetch(ClassShares(table), times)
    whole = sum(table.values())
    assert all(abs(fetched[name] - times * table.get(name, 0) / whole) < len(CLASSES) for name in CLASSES)


@settings(max_examples=20)
@given(weights, st.integers(1, 4))
def test_workers_have_the_shares_together(table: dict[str, int], number: int) -> None:
    """The last worker has no URLs of the first class; the others make up for it as far as they can."""
    workers = [ClassShares(table) for _ in range(number)]
    fetched = Counter[str]()
    for _ in range(100):
        for worker in workers:
            is_last = number > 1 and worker is workers[-1]
            fetched += fetch(worker, 20, CLASSES[1:] if is_last else CLASSES)
        for worker in workers:
            worker.update(fetched, number, ())
    whole = sum(table.values())
    first = table.get(CLASSES[0], 0) / whole
    if number == 1 or first <= (number - 1) / number - 0.05:
        assert abs(fetched[CLASSES[0]] / fetched.total() - first) < 0.03


@pytest.mark.parametrize("heard", [30, 900])
@pytest.mark.parametrize(
    "classes",
    [
        [CLASSES, *2 * [(COVERAGE_GET, *CHECKS)]],
        [CLASSES, *9 * [(COVERAGE_GET, FRESHNESS_GET, COVERAGE_CHK, UPDATE_CHK)]],
        [CLASSES[:3], (COVERAGE_GET, FRESHNESS_CHK, UPDATE_CHK), CLASSES[:2]],
    ],
    ids=["one worker of three", "one worker of ten", "each at some workers"],
)
def test_a_class_that_few_workers_have_has_its_share(classes: list[tuple[str, ...]], heard: int) -> None:
    """However many fetches each worker hears of at once: it makes up for what the others cannot fetch."""
    table = dict(zip(CLASSES, (40, 25, 5, 10, 20), strict=True))
    workers = [ClassShares(table) for _ in classes]
    totals, before = Counter[str](), Counter[str]()
    turns = max(50, 12_000 // heard)
    for turn in range(turns):
        for worker, available in zip(workers, classes, strict=True):
            totals += fetch(worker, heard // len(workers), available)
        for worker in workers:
            worker.update(totals, len(workers), ())
        if turn == turns // 2:
            before = totals.copy()
    counted = totals - before
    for name, share in table.items():
        assert abs(100 * counted[name] / counted.total() - share) < 0.5


def test_a_class_that_had_no_urls_makes_up_for_the_latest_fetches_only() -> None:
    shares = ClassShares({"coverage-get": 1, "update-chk": 1})
    totals = Counter[str]()
    for _ in range(100):
        totals += fetch(shares, 100, ("coverage-get",))
        shares.update(totals, 1, ())
    assert fetch(shares, 5_000)["update-chk"] - 2_500 <= 1_100


def test_what_a_class_lacks_is_of_the_whole_crawl_and_of_all_tables() -> None:
    parts = {"coverage-get": 3, "update-chk": 1}
    traffic = Traffic({**parts, "own.test": parts})
    for fetches in (0, 40):
        traffic.update({"": {"coverage-get": fetches}, "own.test": {"update-chk": fetches // 2}}, 2, {})
    counts = traffic.counts("update-chk")
    assert (counts.fetched, counts.wanted) == (20, 15)
    assert counts.missing == 10 - 15
    assert abs(traffic.counts("freshness-chk").wanted) < 1e-6, "it has no share"


def test_hosts_of_a_domain_have_its_shares() -> None:
    traffic = Traffic({"coverage-get": 1, "own.org": {"update-chk": 1}})
    hosts = [
        "http://own.org",
        "https://www.own.org:8443",
        "http://disown.org",
        "http://org",
        "http://[::1]:80",
    ]
    assert [traffic.site_of(host) for host in hosts] == ["own.org", "own.org", "", "", ""]
