"""The learned value of URLs, and the file of its weights."""

from __future__ import annotations

import math
import random
from array import array
from functools import cache
from typing import Any

import pytest
from hypothesis import given, strategies as some

from tests.cases import cases
from webcrawl.policies.learned_value import BITS, MOST_LEVELS, ValueModel, bucket, even, features
from webcrawl.policies.mined import Mined
from webcrawl.policies.mined_terms import LearnedValue as Term
from webcrawl.policies.priorities import Prospect

HOST, PATH, PAGE = (
    "https://a.example",
    "/news/2026/11/why-it-rains.html?page=2&sort=new",
    "https://a.example/news/",
)


@cache
def model() -> ValueModel:
    dice = random.Random(1)
    weights = [dice.gauss(0, 0.1) if dice.random() < 0.2 else 0.0 for _ in range(1 << BITS)]
    return ValueModel("text", 0.25, array("f", weights))


@cache
def weights() -> dict[int, float]:
    """The weights that the model writes, by their places."""
    table = model().as_dict()
    return dict(zip(array("I", table["places"]), array("f", table["weights"]), strict=True))


@cache
def data() -> bytes:
    """A file with the model."""
    return Mined("2026-11-23T22:00:00+00:00", model()).pack()


def test_a_url_has_these_features() -> None:
    assert features(HOST, PATH, 12, PAGE, "Why it rains") == [
        "host https://a.example",
        "pattern https://a.example/news/#+/w.html?page&sort",
        "shape /news/#+/w.html?page&sort",
        "folder https://a.example/news",
        "folder https://a.example/news/#+",
        "extension html",
        "parameter page",
        "parameter sort",
        "depth 10",
        "parent https://a.example/news/",
        "step /news/ /news/#+/w.html?page&sort",
        *(
            "word news",
            "word why",
            "word it",
            "word rains",
            "word html",
            "word page",
            "word sort",
            "word new",
        ),
        *("text why", "text it", "text rains"),
    ]
    (elsewhere,) = (one for one in features(HOST, "/", 0, "https://b.example/", "") if one.startswith("step"))
    (nowhere,) = (one for one in features(HOST, "/", 0, "", "") if one.startswith("step"))
    assert (elsewhere, nowhere) == ("step elsewhere /", "step  /")


def test_places_never_change() -> None:
    """Files of weights would be read wrongly."""
    assert [bucket(one) for one in ("", "depth 1", "word grün", "word \ud800")] == PLACES


PLACES = [(234690, -1), (46549, -1), (131683, -1), (119696, -1)]


@given(some.text(max_size=60), some.text(max_size=30), some.integers(0, 10**6))
def test_the_score_is_the_sum_of_the_signed_weights(path: str, text: str, depth: int) -> None:
    found = features(HOST, f"/{path}", depth, PAGE, text)
    expected = 0.25
    for place, sign in map(bucket, found):
        expected += sign * weights().get(place, 0.0)
    assert model().score(found) == pytest.approx(expected, abs=1e-6)
    levels = model().levels(found)
    assert abs(levels) <= MOST_LEVELS and levels * 16 == round(levels * 16)
    assert levels == pytest.approx(min(max(2 * expected, -3), 3), abs=1 / 16)


def test_values_are_made_even() -> None:
    assert [even(value) for value in (0, math.e - 1, 1 - math.e)] == pytest.approx([0, 1, -1])
    assert even(10**9) < 21


def test_the_file_keeps_the_model() -> None:
    read = Mined.unpack(data())
    found = features(HOST, PATH, 3, PAGE, "Why it rains")
    assert read.made == "2026-11-23T22:00:00+00:00" and read.value is not None
    assert (read.value.target, read.value.score(found)) == ("text", model().score(found))
    assert Mined.unpack(Mined("x").pack()) == Mined("x", None)
    assert len(data()) < 500_000


@given(some.integers(0, 10**6), some.integers(1, 255))
def test_a_changed_byte_is_found(place: int, change: int) -> None:
    damaged = bytearray(data())
    damaged[place % len(damaged)] ^= change
    with pytest.raises(ValueError, match="^it "):
        Mined.unpack(bytes(damaged))


@given(some.integers(0, 10**6))
def test_an_incomplete_file_is_found(length: int) -> None:
    with pytest.raises(ValueError, match="^it "):
        Mined.unpack(data()[: length % len(data())])


@cases(
    "change",
    [
        {"bits": 12},
        {"weights": bytes(4)},
        {"weights": b"abc"},
        {"intercept": math.nan},
        {"intercept": None},
        {"places": array("I", [1 << BITS]).tobytes(), "weights": array("f", [1]).tobytes()},
        {"places": array("I", [1]).tobytes(), "weights": array("f", [math.inf]).tobytes()},
    ],
)
def test_weights_that_cannot_be_used_are_refused(change: dict[str, Any]) -> None:
    class Wrong(ValueModel):
        def as_dict(self) -> dict[str, Any]:
            return super().as_dict() | change

    wrong = Mined("x", Wrong("text", 0.0, array("f", bytes(4 << BITS)))).pack()
    with pytest.raises(ValueError, match="^it cannot be read: "):
        Mined.unpack(wrong)


def test_a_file_of_another_version_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="another version: run `scrapy mine` again"):
        Mined.unpack(data().replace(b"weights 1\n", b"weights 2\n", 1))
    with pytest.raises(ValueError, match="it has no weights"):
        Mined.unpack(b"")


def test_the_term_weighs_nothing_without_weights_and_is_left_out_without_mined() -> None:
    assert Term.from_config({"MINED": False}) is None
    term = Term.from_config({"MINED": True})
    assert term is not None and term.needs_text and not term.of_requests
    prospect = Prospect(HOST + PATH, PATH, 3, PAGE, text="Why it rains")
    assert term.weight(prospect) == 0.0
    term.use(Mined("x"))
    assert term.weight(prospect) == 0.0
    term.use(Mined("x", model()))
    assert term.weight(prospect) == model().levels(features(HOST, PATH, 3, PAGE, "Why it rains")) != 0.0
