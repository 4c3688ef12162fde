"""The benchmark of the cache of popular URLs."""

from __future__ import annotations

import pytest

from benchmarks.url_cache import POLICIES, breadth_first, bytes_an_entry, hit_ratio

WEB = {"a": ["b", "c", "b"], "b": ["a", "c"], "c": ["a", "d"], "d": []}


def test_links_are_read_breadth_first_as_numbers() -> None:
    assert [list(links) for links in breadth_first("a", WEB.__getitem__)] == [[0, 1, 0], [2, 1], [2, 3], []]


@pytest.mark.parametrize("policy", POLICIES)
def test_hit_ratio_counts_the_links_that_were_known(policy: str) -> None:
    assert hit_ratio(POLICIES[policy](100), [[1, 2], [2, 3], [1, 2, 3, 4]]) == 0.5


def test_policies_differ_in_what_they_keep() -> None:
    """Three links are on every page, and five others on one page each; there is room for ten."""
    trace = [[1, 2, 3, *range(10 * page, 10 * page + 5)] for page in range(1, 101)]
    found = {name: hit_ratio(make(10), trace) for name, make in POLICIES.items()}
    best = found.pop("unbounded")
    assert best == pytest.approx(3 * 99 / 800)
    assert found.pop("two generations") < 0.6 * best
    assert found == {"CLOCK": best, "least recently used": best}


def test_memory_is_that_of_the_entries() -> None:
    assert (
        20
        < bytes_an_entry(POLICIES["two generations"], 2**12)
        < bytes_an_entry(POLICIES["CLOCK"], 2**12)
        < 150
    )
