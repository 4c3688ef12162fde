"""The signals of the quality of a text, beside plain definitions of the rules of Gopher, C4 and FineWeb."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.documents.text_signals import (
    COUNTS,
    DUPLICATE_SIZES,
    SHARES,
    STOP_WORDS,
    TOP_SIZES,
    text_signals,
)

WORDS = st.sampled_from(
    ["the", "The", "with", "a", "#", "...", "end.", "- x", "1", "42nd", "{", "été", "東京"]
)
TEXTS = st.lists(st.lists(WORDS, min_size=1, max_size=12).map(" ".join), min_size=1, max_size=12).map(
    "\n".join
)


def top_share(text: str, size: int) -> float:
    words = text.split()
    grams = Counter(" ".join(words[start : start + size]) for start in range(len(words) - size + 1))
    if not grams:
        return 0.0
    gram, count = grams.most_common(1)[0]
    return len(gram) * count / len(text)


def duplicate_share(text: str, size: int) -> float:
    words, known, characters, start = text.split(), set[tuple[str, ...]](), 0, 0
    while start <= len(words) - size:
        gram = tuple(words[start : start + size])
        if gram in known:
            characters += len("".join(gram))
            start += size
        else:
            known.add(gram)
            start += 1
    return characters / len(text)


@given(TEXTS)
def test_shares_of_n_grams_are_those_of_the_definitions(text: str) -> None:
    signals = text_signals(text)
    for size in TOP_SIZES:
        assert signals[f"top_{size}gram_share"] == pytest.approx(top_share(text, size))
    for size in DUPLICATE_SIZES:
        assert signals[f"duplicate_{size}gram_share"] == pytest.approx(duplicate_share(text, size))


@given(TEXTS)
def test_signals_of_lines_and_words_are_those_of_the_definitions(text: str) -> None:
    signals, lines, words = text_signals(text), text.split("\n"), text.split()
    assert signals.keys() == {*COUNTS, *SHARES}
    assert (signals["characters"], signals["lines"], signals["words"]) == (len(text), len(lines), len(words))
    repeated = [line for number, line in enumerate(lines) if line in lines[:number]]
    assert signals["duplicate_line_share"] == len(repeated) / len(lines)
    assert signals["duplicate_line_character_share"] == pytest.approx(len("".join(repeated)) / len(text))
    assert signals["mean_line_length"] == pytest.approx(sum(map(len, lines)) / len(lines))
    content = [word for word in words if word not in ("#", "...", "-", "{")]
    assert signals["content_words"] == len(content)
    assert signals["mean_word_length"] == pytest.approx(len("".join(content)) / max(1, len(content)))
    stops = [word for word in words if word.lower() in STOP_WORDS]
    assert signals["stop_word_share"] == pytest.approx(len(stops) / len(words))
    assert signals["stop_words"] == len({"the", "with"}.intersection(words))


def test_signals_of_a_small_text() -> None:
    text = 'He said: "Go."\n- a list\nRead more...\n#1 #2 {x} \u2014\nA line of more than thirty characters!'
    signals = text_signals(text)
    expected = {"lines": 5, "words": 19, "content_words": 17, "curly_brackets": 1}
    expected |= {"terminal_line_share": 0.4, "ellipsis_line_share": 0.2, "bullet_line_share": 0.2}
    expected |= {"short_line_share": 0.8, "hash_ratio": 2 / 19, "ellipsis_ratio": 1 / 19}
    expected |= {"alphabetic_word_share": 15 / 19}
    assert {name: signals[name] for name in expected} == pytest.approx(expected)


@cases("text", ["word", "...", "{ } {", "a b"])
def test_short_texts_have_all_signals(text: str) -> None:
    assert text_signals(text).keys() == {*COUNTS, *SHARES}
