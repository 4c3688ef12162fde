"""The cache of popular URLs: exact, bounded, and a hit keeps an entry."""

from __future__ import annotations

import random

from hypothesis import given, strategies as st

from webcrawl.frontier.recent import RecentCache

operations = st.lists(st.integers(0, 30) | st.just(None), max_size=200)


class Clock:
    """CLOCK as Broder, Najork and Wiener describe it: a circle of places, each with a mark, and a hand."""

    def __init__(self, capacity: int) -> None:
        self.places: list[list[int]] = []
        self._capacity = capacity
        self._hand = 0

    def add(self, number: int) -> bool:
        for place in self.places:
            if place[0] == number:
                place[1] = 1
                return False
        if len(self.places) < self._capacity:
            self.places.append([number, 0])
            return True
        while self.places[self._hand][1]:
            self.places[self._hand][1] = 0
            self._turn()
        self.places[self._hand] = [number, 0]
        self._turn()
        return True

    def _turn(self) -> None:
        self._hand = (self._hand + 1) % self._capacity


@given(operations, st.integers(1, 20))
def test_cache_replaces_what_clock_replaces(operations: list[int | None], capacity: int) -> None:
    cache, clock = RecentCache(capacity), Clock(capacity)
    for number in operations:
        if number is None:
            cache.clear()
            clock = Clock(capacity)
            continue
        assert cache.add(number) is clock.add(number)
        others = [other for other, _ in clock.places if other != number]
        # looking marks what is there, and adds nothing
        assert cache.absent([*others, 100, 101]) == [100, 101]
        assert number in cache and 102 not in cache
        for place in clock.places:
            place[1] = 1


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
        assert len(remembered) <= capacity
        assert cache.absent(range(31)) == [other for other in range(31) if other not in remembered]


def test_a_hit_keeps_an_entry() -> None:
    cache = RecentCache(4)
    for number in range(4):
        cache.add(number)
    assert 0 in cache
    assert cache.absent([2]) == []
    # 1 and 3 were not asked for
    assert cache.add(4) and cache.add(5)
    assert [number for number in range(6) if number in cache] == [0, 2, 4, 5]


@given(st.integers(1, 400), st.integers(0, 1000))
def test_without_hits_the_latest_entries_are_kept(capacity: int, count: int) -> None:
    """A large cache drops several at a time, a sixty-fourth of its capacity."""
    cache = RecentCache(capacity)
    for number in range(count):
        cache.add(number)
        assert number in cache._entries
    kept = sorted(cache._entries)
    assert kept == list(range(count - len(kept), count))
    assert min(count, capacity * 63 // 64) <= len(kept) <= capacity


@given(st.lists(st.integers(0, 500), max_size=1000), st.integers(65, 300))
def test_a_large_cache_is_exact_and_bounded(numbers: list[int], capacity: int) -> None:
    cache, added = RecentCache(capacity), set[int]()
    for number in numbers:
        known = number in cache
        assert not known or number in added
        assert cache.add(number) is not known
        added.add(number)
        assert len(cache._entries) <= capacity
        assert cache._marked <= cache._entries
    ring = [one for step in [*cache._ring, cache._newest] for one in step]
    assert sorted(ring) == sorted(cache._entries)


def test_popular_links_stay_beside_any_number_of_others() -> None:
    """All pages of a site share a hundred navigation links; no page asks the engine for one of them again."""
    cache = RecentCache(2**10)
    dice = random.Random(3)
    navigation = [dice.getrandbits(63) for _ in range(100)]
    misses = sum(
        cache.add(link)
        for _ in range(1000)
        for link in [*navigation, *(dice.getrandbits(63) for _ in range(5))]
    )
    assert misses == 100 + 1000 * 5
