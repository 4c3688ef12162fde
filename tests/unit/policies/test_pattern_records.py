"""A pattern that gives nothing new sinks, recovers, and leaves others where they are."""

from __future__ import annotations

import itertools

from hypothesis import given, strategies as st

from webcrawl.policies.pattern_records import (
    BARREN,
    LEAST,
    LOWEST_OF_ALL,
    MOST_PATTERNS,
    POOR,
    SINKS_BY,
    TRIALS,
    HostPatterns,
    Outcome,
    is_trial,
    sinks_by,
)

outcomes: st.SearchStrategy[Outcome] = st.sampled_from(["new", "copy", "error", "empty"])


def after(*pages: tuple[str, Outcome]) -> HostPatterns:
    patterns = HostPatterns()
    for path, outcome in pages:
        patterns.add(path, outcome)
    return patterns


def no_trial(beginning: str) -> str:
    return next(path for n in itertools.count() if not is_trial(path := f"{beginning}{n}"))


def test_few_new_pages_sink_and_fewer_sink_lower() -> None:
    assert sinks_by(LEAST - 1, 0) == 0
    assert sinks_by(64, 64 // POOR) == 0
    assert sinks_by(64, 64 // POOR - 1) == SINKS_BY
    assert sinks_by(64, 64 // BARREN) == SINKS_BY
    assert sinks_by(64, 64 // BARREN - 1) == LOWEST_OF_ALL


@given(st.integers(0, 100_000))
def test_a_forum_with_a_new_text_on_each_page_never_sinks(pages: int) -> None:
    patterns = HostPatterns()
    for page in range(min(pages, 300)):
        assert not patterns.add(f"/thread/{page + pages}", "new")
    assert patterns.levels(f"/thread/{pages}") == 0


def test_a_calendar_sinks_and_the_articles_beside_it_do_not() -> None:
    patterns = after(*((f"/article/{n}", "new") for n in range(100)))
    told = [patterns.add(f"/calendar/{2000 + n}/1", "copy") for n in range(LEAST)]
    assert told == [False] * (LEAST - 1) + [True]
    assert patterns.levels(no_trial("/calendar/2000/")) == LOWEST_OF_ALL
    assert patterns.levels(no_trial("/article/")) == 0
    assert patterns.levels(no_trial("/author/")) == 0


def test_one_in_some_urls_is_tried_and_the_pattern_recovers() -> None:
    patterns = after(*((f"/day/{n}", "empty") for n in range(500)))
    kept = sum(not patterns.levels(f"/day/{n}") for n in range(32_000))
    assert 0.7 < kept * TRIALS / 32_000 < 1.4
    needed = next(n for n in range(500) if patterns.add(f"/day/{n}", "new") and not patterns.sunk)
    assert needed <= 32


def test_a_page_that_gives_nothing_new_has_no_trials_among_its_links() -> None:
    patterns = after(*((f"/day/{n}", "copy") for n in range(LEAST)), ("/about", "new"))
    trial = next(path for n in itertools.count() if is_trial(path := f"/day/{n}"))
    assert patterns.levels(trial, tries=patterns.tries("/about")) == 0
    assert patterns.levels(trial, tries=patterns.tries("/day/7")) == LOWEST_OF_ALL
    poor = after(*((f"/day/{n}", "copy" if n % 8 else "new") for n in range(32)))
    assert poor.levels(no_trial("/day/")) == SINKS_BY
    assert poor.tries("/day/7")


@given(st.lists(outcomes, max_size=200), st.integers(0, 1000))
def test_any_pattern_recovers_by_new_pages_and_then_tries_its_links(past: list[Outcome], number: int) -> None:
    """Those are fetched at the lowest level: none of them needs to be a trial."""
    patterns = after(*((f"/day/{n}", outcome) for n, outcome in enumerate(past)))
    for page in range(32):
        patterns.add(f"/day/{number + page}", "new")
    assert not patterns.sunk
    assert patterns.tries("/day/1")
    assert patterns.levels(no_trial("/day/"), tries=False) == 0


def test_combinations_of_parameters_sink_together() -> None:
    patterns = HostPatterns()
    names = [f"{one}=1&{other}=2" for one, other in itertools.combinations("abcdefgh", 2)]
    for query in names[:LEAST]:
        patterns.add(f"/shop?{query}", "copy")
    assert patterns.levels(no_trial("/shop?g=1&h=")) == LOWEST_OF_ALL
    assert patterns.levels(no_trial("/shop/")) == 0


def test_the_reason_is_told() -> None:
    patterns = after(*((f"/{n}", "new" if n < 18 else "copy") for n in range(230)))
    assert patterns.records["/#"].why == "212 of 230 pages were copies"
    patterns = after(*((f"/{n}", "error") for n in range(20)))
    patterns.add_links("/3", 7)
    assert patterns.records["/#"].why == "20 of 20 pages were errors"
    assert patterns.records["/#"].links == 7


@given(st.lists(st.tuples(st.text("abc/?&=", max_size=8), outcomes), max_size=300))
def test_records_are_bounded_and_lose_no_page(pages: list[tuple[str, Outcome]]) -> None:
    patterns = after(*(("/" + path, outcome) for path, outcome in pages))
    assert len(patterns.records) <= MOST_PATTERNS
    assert sum(record.fetched for record in patterns.records.values()) == len(pages)
    for record in patterns.records.values():
        assert record.fetched == record.new + record.copies + record.errors + record.empty
        assert 0 <= record.recent_new <= record.recent <= record.fetched
    again = HostPatterns.unpack(patterns.pack())
    assert again.records == patterns.records
    assert again.sunk == patterns.sunk


def test_a_thousand_different_paths_have_64_records() -> None:
    letters = "abcdefghij"
    paths = [f"/{a}/{b}{c}" for a in letters for b in letters for c in letters]
    patterns = after(*((path, "new") for path in paths))
    assert len(patterns.records) <= MOST_PATTERNS
    assert sum(record.fetched for record in patterns.records.values()) == len(paths)
    assert patterns.levels("/a/zz") == 0
