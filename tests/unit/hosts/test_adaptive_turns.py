"""HostTurn with POLITENESS_ADAPT."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from webcrawl.config import PolitenessConfig, politeness, politeness_overrides
from webcrawl.hosts.adaptation import MOST_FACTOR
from webcrawl.hosts.politeness import Failed, HostTurn, Ok, Outcome, Throttled
from webcrawl.hosts.rules import HostRules

ADAPTIVE = PolitenessConfig(delay=1.0, adapt=True, min_delay=0.2, jitter=0.0)
OUTCOMES = st.lists(
    st.one_of(
        st.builds(Ok, st.floats(), st.booleans()),
        st.builds(Throttled, st.none() | st.floats(0, 10)),
        st.just(Failed()),
    ),
    max_size=40,
)
SECONDS = st.floats(0, 50)


def play(turn: HostTurn, *outcomes: Outcome) -> list[float]:
    """Makes requests as early as they are allowed; returns the gap after each."""
    gaps = []
    for outcome in outcomes:
        now = turn.ready_at
        turn.start(now)
        turn.finish(now, outcome)
        gaps.append(turn.gap)
    return gaps


@given(SECONDS, SECONDS, SECONDS, SECONDS, SECONDS, OUTCOMES)
def test_no_delay_is_shorter_than_one_that_was_asked_for(
    usual: float, least: float, crawl_delay: float, operators: float, gap: float, outcomes: list[Outcome]
) -> None:
    config = PolitenessConfig(delay=usual, adapt=True, min_delay=least)
    turn = HostTurn(config, crawl_delay, now=0.0)
    turn.begin_with(gap)
    turn.set_delay(operators)
    asked = max(least, crawl_delay, operators)
    most = max(asked, MOST_FACTOR * max(usual, least))
    assert all(asked <= gap <= most for gap in play(turn, *outcomes))


def test_the_gap_falls_and_doubles() -> None:
    turn = HostTurn(ADAPTIVE, None, now=0.0)
    gaps = play(turn, *[Ok(0.1)] * 12)
    assert gaps[0] == 1.0 and gaps[-1] < 0.6 and gaps == sorted(gaps, reverse=True)
    (strained,) = play(turn, Ok(0.1, error=True))
    assert strained == 2 * gaps[-1]


@pytest.mark.parametrize("outcome", [Failed(), Throttled(), Throttled(5.0)])
def test_a_refusal_doubles_the_gap(outcome: Outcome) -> None:
    turn = HostTurn(ADAPTIVE, None, now=0.0)
    before = play(turn, *[Ok(0.1)] * 12)[-1]
    assert play(turn, outcome) == [2 * before]


def test_the_gap_of_an_earlier_lease_is_continued() -> None:
    turn = HostTurn(ADAPTIVE, None, now=0.0)
    turn.begin_with(0.5)
    assert turn.gap == 0.5
    turn.begin_with(0.0)
    assert turn.gap == 0.5
    off = HostTurn(PolitenessConfig(delay=1.0), None, now=0.0)
    off.begin_with(0.5)
    assert off.gap == 1.0
    assert play(off, *[Ok(0.1)] * 12)[-1] == 1.0


def test_a_delay_of_a_host_of_its_own_does_not_fall() -> None:
    settings = {
        "POLITENESS_ADAPT": True,
        "DOWNLOAD_SLOTS": {"slot.example": {"delay": 3}, "two.example": {"concurrency": 2}},
    }
    overrides = politeness_overrides(settings)
    rules = HostRules.from_setting([{"match": "*.example", "delay": 5}], politeness(settings), overrides)
    least = {name: rules.config_of(name).min_delay for name in ("a.example", "a.test")}
    assert least == {"a.example": 5, "a.test": 0.1}
    assert {name: config.min_delay for name, config in overrides.items()} == {
        "slot.example": 3,
        "two.example": 0.1,
    }
