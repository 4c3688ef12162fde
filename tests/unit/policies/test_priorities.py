"""Weights are sums of terms, and levels follow from them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.config import read
from webcrawl.config.rules import LevelRule
from webcrawl.errors import ConfigurationError
from webcrawl.policies.priorities import (
    LOWEST,
    USUAL,
    Prioritizer,
    Prospect,
    Term,
    UrlLevels,
    level_of_weight,
)

WEIGHTS = st.integers(-64, 64).map(lambda sixteenths: sixteenths / 16)


class Constant(Term):
    why = "A test needs a weight."

    def __init__(self, weight: float) -> None:
        self._weight = weight

    def weight(self, prospect: Prospect) -> float:
        return self._weight


class OfLinks(Constant):
    of_requests = False


class Idle(Constant):
    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self | None:
        return None


class Reading(Constant):
    needs_text: ClassVar[bool] = True

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self | None:
        return cls(1.0)


def prospect(url: str = "http://a.example/b") -> Prospect:
    return Prospect(url, url.partition("example")[2])


@cases(
    ("weight", "level"),
    [
        *(
            (0.0, 3),
            (0.4375, 3),
            (0.5, 3),
            (0.5625, 2),
            (-0.4375, 3),
            (-0.5, 4),
            (1.0, 2),
            (2.5, 1),
            (2.5625, 0),
            (99.0, 0),
        ),
        *(
            (-1.0, 4),
            (-3.4375, 6),
            (-3.5, 7),
            (-4.0, 7),
            (-99.0, 7),
            (math.inf, 0),
            (-math.inf, 7),
            (math.nan, 7),
        ),
    ],
)
def test_the_table_of_weights_and_levels(weight: float, level: int) -> None:
    assert level_of_weight(weight) == level


@given(st.floats(), st.floats())
def test_a_better_weight_is_never_a_worse_level(one: float, other: float) -> None:
    better, worse = (one, other) if one >= other else (other, one)
    assert 0 <= level_of_weight(one) <= LOWEST
    if not math.isnan(one + other):
        assert level_of_weight(better) <= level_of_weight(worse)


@given(WEIGHTS)
def test_a_level_is_the_usual_one_minus_the_weight(weight: float) -> None:
    assert level_of_weight(weight) == min(max(math.floor(USUAL - weight + 0.5), 0), LOWEST)


@given(st.lists(WEIGHTS, max_size=9), st.randoms())
def test_a_weight_is_the_sum_of_its_terms_in_any_order(weights: list[float], random: Any) -> None:
    terms = [Constant(weight) for weight in weights]
    weighed = Prioritizer(terms).weighed(prospect())
    assert weighed.weight == sum(weights)
    assert [part.weight for part in weighed.parts] == weights
    assert weighed.level == Prioritizer(terms).level(prospect()) == level_of_weight(sum(weights))
    random.shuffle(terms)
    assert Prioritizer(terms).level(prospect()) == weighed.level


def test_requests_are_weighed_by_the_terms_that_say_so() -> None:
    chain = Prioritizer([Constant(1.0), OfLinks(-4.0)])
    assert (chain.level(prospect()), chain.level_of_request(prospect())) == (6, 2)
    assert chain.weighs_requests
    assert not Prioritizer([OfLinks(1.0)]).weighs_requests
    assert Prioritizer([], UrlLevels([LevelRule("b", 0)])).level_of_request(prospect()) == 0


def test_a_term_without_anything_to_do_is_left_out() -> None:
    assert [part.name for part in Prioritizer.from_config({}, [Reading, Idle]).weighed(prospect()).parts] == [
        "Reading"
    ]
    assert Prioritizer.from_config({}, [Reading]).needs_text
    assert not Prioritizer.from_config({}, [Idle]).needs_text


RULES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b+", "^http", "x?y", "/c/d/e", "example", "q|z", "(?i)B"]),
        st.one_of(st.integers(0, 7), st.integers(-7, 7).map("{:+d}".format)),
    ),
    max_size=60,
)


@given(RULES, st.text("abcdexyqz/", max_size=12), st.integers(0, 7))
def test_rules_set_and_shift_levels(pairs: list[tuple[str, Any]], path: str, level: int) -> None:
    url = f"http://a.example/{path}"
    rules = read({"URL_LEVELS": pairs}, "URL_LEVELS")
    matching = [value for pattern, value in pairs if re.search(pattern, url)]
    base = next((value for value in matching if isinstance(value, int)), level)
    shift = sum(int(value) for value in matching if isinstance(value, str))
    levels = UrlLevels(rules)
    assert levels.change(url, level) == min(max(base + shift, 0), 7)
    assert len(levels.matching(url)) == len(matching)


def test_rules_apply_to_the_level_of_the_weight() -> None:
    levels = UrlLevels.from_config({"URL_LEVELS": '[["/tag/", "+2"], ["^http://a.example/$", 0]]'})
    assert levels is not None
    chain = Prioritizer([Constant(-1.0)], levels)
    assert [chain.level(prospect(f"http://a.example{path}")) for path in ("/x", "/tag/x", "/")] == [4, 6, 0]
    assert chain.weighed(prospect("http://a.example/tag/")).matched == ('("/tag/", "+2")',)
    assert UrlLevels.from_config({}) is None


@cases(
    ("name", "value", "fault"),
    [
        (
            "URL_LEVELS",
            [("a", 0), ("(", 1)],
            r"URL_LEVELS, entry 2: '\(' is not a regular expression: missing \)",
        ),
        ("URL_LEVELS", [("a", 8)], "URL_LEVELS, entry 1: 8 is neither a level from 0 to 7"),
        ("URL_LEVELS", [("a", -1)], "entry 1: -1 is neither a level"),
        ("URL_LEVELS", [("a", True)], "entry 1: True is neither a level"),
        ("URL_LEVELS", [("a", "2")], "entry 1: '2' is neither a level"),
        ("URL_LEVELS", [("a", "+8")], "entry 1: '.8' is neither a level"),
        ("URL_LEVELS", [("a",)], "entry 1: .* is not a pair"),
        ("URL_LEVELS", ["ab"], "entry 1: 'ab' is not a pair"),
        ("URL_LEVELS", [("a", 1, 2)], "entry 1: .* has more than two parts"),
        ("URL_LEVELS", [(b"a", 1)], "entry 1: b'a' is not a regular expression"),
        ("URL_LEVELS", 7, "URL_LEVELS must be a list of pairs"),
        ("URL_LEVELS", "{}", "URL_LEVELS must be a list of pairs"),
        ("LINK_RULES", [("a", "b"), ("a", "[")], r"LINK_RULES, entry 2: '\[' is not a regular expression"),
        ("LINK_RULES", [(None, "b")], "LINK_RULES, entry 1: None is not a regular expression"),
        ("ANCHOR_WORDS", {"a": 1, "(": 1}, r"ANCHOR_WORDS, entry 2: '\(' is not a regular expression"),
        ("ANCHOR_WORDS", {"a": "1"}, "ANCHOR_WORDS, entry 1: '1' is not a number"),
        ("ANCHOR_WORDS", {"a": math.nan}, "ANCHOR_WORDS, entry 1: nan is not a number"),
        ("URL_DENY", ["a", "("], r"URL_DENY, entry 2: '\(' is not a regular expression"),
    ],
)
def test_a_wrong_entry_is_named(name: str, value: Any, fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        read({name: value}, name)
