"""The cache of recent fingerprints: exact, bounded, and effective for repeated links."""

from __future__ import annotations

import random

from hypothesis import given, strategies as st

from webcrawl.frontier.recent import RecentCache

operations = st.lists(st.integers(0, 30) | st.just(None), max_size=200)


@given(operations, st.integers(1, 20))
def test_cache_is_exact_and_bounded(operations: list[int | None], capacity: int) -> None:
    cache = RecentCache(capacity)
    added: list[int] = []
    for number in operations:
        if number is None:
            cache.clear()
            added.clear()
            continue
        known = number in cache
        assert cache.add(number) is not known
        assert number in cache
        # a false positive would lose a URL
        assert not known or number in added
        added.append(number)
        remembered = {other for other in range(31) if other in cache}
        assert len(remembered) <= max(2, capacity)
        assert cache.absent(range(31)) == [other for other in range(31) if other not in remembered]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=50), st.integers(2, 100))
def test_last_half_of_the_capacity_is_always_kept(numbers: list[int], capacity: int) -> None:
    cache = RecentCache(capacity)
    for number in numbers:
        cache.add(number)
    assert all(number in cache for number in numbers[-(capacity // 2) :])


def test_most_repeated_links_are_found_in_the_cache() -> None:
    """The typical case: all pages of a site share a hundred navigation links."""
    cache = RecentCache(2**10)
    dice = random.Random(3)
    navigation = [dice.getrandbits(63) for _ in range(100)]
    misses = sum(
        cache.add(link)
        for _ in range(1000)
        for link in [*navigation, *(dice.getrandbits(63) for _ in range(5))]
    )
    assert 5000 <= misses < 6500  # 5 new links per page, and the navigation now and then
