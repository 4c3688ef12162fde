"""Signals of the quality of a text: what the rules of Gopher, C4 and FineWeb compare with their thresholds.

The definitions are those of the filters of datatrove (`GopherQualityFilter`, `GopherRepetitionFilter`,
`C4QualityFilter`, `FineWebQualityFilter`), with words separated by white space. Sources:

    Gopher   https://arxiv.org/abs/2112.11446, table A1
    C4       https://jmlr.org/papers/volume21/20-074/20-074.pdf, section 2.2
    FineWeb  https://arxiv.org/abs/2406.17557, section 3.6
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import product
from operator import mul
from string import punctuation

import numpy as np
import numpy.typing as npt

MOST_CHARACTERS = 2_000_000
"""The signals are those of so many characters of a text, the first."""
STOP_WORDS = frozenset({"the", "be", "to", "of", "and", "that", "have", "with"})
"""The words of Gopher's rule: English text has two of them."""
TOP_SIZES, DUPLICATE_SIZES = (2, 3, 4), (5, 6, 7, 8, 9, 10)
"""The words of the n-grams whose most frequent one, and whose repetitions, are measured."""

_SHORT_LINE = 30
_ELLIPSIS = ("...", "\u2026")
_BULLETS = ("\u2022", "-")
_END_PUNCTUATION = (".", "?", "!", '"', "'")
_PUNCTUATION = f"{punctuation}\u201c\u201d\u2018\u2019\u2026\u2013\u2014\u00ab\u00bb\u3001\u3002\uff0c"
_IN_ANY_CASE = frozenset(
    "".join(letters) for word in STOP_WORDS for letters in product(*zip(word, word.upper(), strict=True))
)
_IS_SYMBOL = re.compile(f"[{re.escape(_PUNCTUATION)}]+").fullmatch

COUNTS = ("characters", "words", "content_words", "lines", "stop_words", "curly_brackets")
"""The signals that are whole numbers; all others are fractions."""
SHARES = (
    *("mean_word_length", "mean_line_length", "hash_ratio", "ellipsis_ratio", "alphabetic_word_share"),
    *("stop_word_share", "bullet_line_share", "ellipsis_line_share", "terminal_line_share"),
    *("short_line_share", "duplicate_line_share", "duplicate_line_character_share"),
    *(f"top_{size}gram_share" for size in TOP_SIZES),
    *(f"duplicate_{size}gram_share" for size in DUPLICATE_SIZES),
)
OF_PAGE = ("link_share", "code_share", "language_score")
"""Signals that the text alone does not tell."""


def text_signals(text: str) -> dict[str, float]:
    """Returns the signals COUNTS and SHARES of a text, which must have a word; docs/reference/texts.md has them all."""
    text = text[:MOST_CHARACTERS]
    words, lines = text.split(), text.split("\n")
    counts = Counter(words)
    return _of_words(text, counts) | _of_lines(text, lines) | _of_n_grams(text, words, counts)


def _of_words(text: str, counts: Counter[str]) -> dict[str, float]:
    number = counts.total()
    symbols = {word for word in counts if not word[0].isalnum() and _IS_SYMBOL(word)}
    content = number - sum(counts[word] for word in symbols)
    letters = sum(map(mul, map(len, counts), counts.values()))
    letters -= sum(len(word) * counts[word] for word in symbols)
    without_letter = sum(
        count for word, count in counts.items() if not word[0].isalpha() and not any(map(str.isalpha, word))
    )
    return {
        "characters": len(text),
        "words": number,
        "content_words": content,
        "mean_word_length": letters / content if content else 0.0,
        "hash_ratio": text.count("#") / number,
        "ellipsis_ratio": sum(map(text.count, _ELLIPSIS)) / number,
        "alphabetic_word_share": 1 - without_letter / number,
        "stop_words": len(STOP_WORDS.intersection(counts)),
        "stop_word_share": sum(map(counts.__getitem__, _IN_ANY_CASE.intersection(counts))) / number,
        "curly_brackets": text.count("{"),
    }


def _of_lines(text: str, lines: Sequence[str]) -> dict[str, float]:
    number, counts = len(lines), Counter(lines)
    repeated = {line: count - 1 for line, count in counts.items() if count > 1}
    dots, ellipses = (_lines_that_end(text, end) for end in _ELLIPSIS)
    # a line that ends in "..." ends in "." too, and yet in no sentence
    terminal = sum(_lines_that_end(text, end) for end in _END_PUNCTUATION) - dots
    return {
        "lines": number,
        "mean_line_length": (len(text) - number + 1) / number,
        "bullet_line_share": sum(text.startswith(bullet) + text.count(f"\n{bullet}") for bullet in _BULLETS)
        / number,
        "ellipsis_line_share": (dots + ellipses) / number,
        "terminal_line_share": terminal / number,
        "short_line_share": sum(map(_SHORT_LINE.__ge__, map(len, lines))) / number,
        "duplicate_line_share": sum(repeated.values()) / number,
        "duplicate_line_character_share": sum(len(line) * count for line, count in repeated.items())
        / len(text),
    }


def _lines_that_end(text: str, end: str) -> int:
    return text.count(f"{end}\n") + text.endswith(end)


def _of_n_grams(text: str, words: Sequence[str], counts: Counter[str]) -> dict[str, float]:
    """Measures n-grams as numbers: two n-grams are the same if their first n-1 words and their last word are.

    Only n-grams that repeat count, and these begin with n-1 words that repeat: most texts have few of them.
    """
    numbers = dict(zip(counts, range(len(counts)), strict=True))
    ids = np.fromiter(map(numbers.__getitem__, words), np.int64, len(words))
    ends = np.zeros(len(words) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, counts), np.int64, len(counts))[ids], out=ends[1:])
    signals = dict.fromkeys(SHARES[-len(TOP_SIZES + DUPLICATE_SIZES) :], 0.0)
    starts = np.flatnonzero(np.bincount(ids)[ids] > 1)
    grams = ids[starts]
    for size in range(2, min(len(words), DUPLICATE_SIZES[-1]) + 1):
        room = np.searchsorted(starts, len(words) - size, side="right")
        starts, grams, often = _repeating(
            starts[:room], grams[:room] * len(words) + ids[starts[:room] + size - 1]
        )
        if size in TOP_SIZES:
            signals[f"top_{size}gram_share"] = _top(starts, often, ends, size) / len(text)
        elif len(starts):
            signals[f"duplicate_{size}gram_share"] = _repeated(starts, grams, ends, size) / len(text)
        else:
            break
    return signals


_Integers = npt.NDArray[np.int64]


def _repeating(starts: _Integers, keys: _Integers) -> tuple[_Integers, _Integers, _Integers]:
    """Returns where n-grams begin that repeat, their numbers from 0, and how often each occurs; `starts` are sorted."""
    order = keys.argsort()
    ordered = keys[order]
    grams = np.empty(len(keys), np.int64)
    grams[order] = np.cumsum(np.concatenate(([0], ordered[1:] != ordered[:-1]))) if len(keys) else 0
    often = np.bincount(grams, minlength=1)[grams]
    repeat = often > 1
    return starts[repeat], grams[repeat], often[repeat]


def _top(starts: _Integers, often: _Integers, ends: _Integers, size: int) -> int:
    """Returns the characters of all copies of the most frequent n-gram, the first of several, with its blanks."""
    first = often.argmax() if len(often) else None
    start, most = (0, 1) if first is None else (starts[first], often[first])
    return int((ends[start + size] - ends[start] + size - 1) * most)


def _repeated(starts: _Integers, grams: _Integers, ends: _Integers, size: int) -> int:
    """Returns the characters of n-grams that came before, without blanks; n-grams that are counted do not overlap."""
    known: set[int] = set()
    characters, free = 0, 0
    lengths = ends[starts + size] - ends[starts]
    for start, number, length in zip(starts.tolist(), grams.tolist(), lengths.tolist(), strict=True):
        if start < free:
            continue
        if number in known:
            characters += length
            free = start + size
        else:
            known.add(number)
    return characters
