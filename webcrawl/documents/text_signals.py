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
from itertools import accumulate
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
    return _of_words(text, words) | _of_lines(text, lines) | _of_n_grams(text, words)


def _of_words(text: str, words: Sequence[str]) -> dict[str, float]:
    counts, number = Counter(words), len(words)
    symbols = {word for word in counts if not word[0].isalnum() and _IS_SYMBOL(word)}
    content = number - sum(counts[word] for word in symbols)
    letters = sum(map(len, words)) - sum(len(word) * counts[word] for word in symbols)
    alphabetic = sum(count for word, count in counts.items() if word.isalpha() or any(map(str.isalpha, word)))
    return {
        "characters": len(text),
        "words": number,
        "content_words": content,
        "mean_word_length": letters / content if content else 0.0,
        "hash_ratio": text.count("#") / number,
        "ellipsis_ratio": sum(map(text.count, _ELLIPSIS)) / number,
        "alphabetic_word_share": alphabetic / number,
        "stop_words": len(STOP_WORDS.intersection(counts)),
        "stop_word_share": sum(count for word, count in counts.items() if word.lower() in STOP_WORDS)
        / number,
        "curly_brackets": text.count("{"),
    }


def _of_lines(text: str, lines: Sequence[str]) -> dict[str, float]:
    number, counts = len(lines), Counter(lines)
    repeated = {line: count - 1 for line, count in counts.items() if count > 1}
    in_ellipsis = sum(line.endswith(_ELLIPSIS) for line in lines)
    # a line that ends in "..." ends in "." too, and yet in no sentence
    terminal = sum(line.endswith(_END_PUNCTUATION) and not line.endswith(_ELLIPSIS[0]) for line in lines)
    return {
        "lines": number,
        "mean_line_length": (len(text) - number + 1) / number,
        "bullet_line_share": sum(line.startswith(_BULLETS) for line in lines) / number,
        "ellipsis_line_share": in_ellipsis / number,
        "terminal_line_share": terminal / number,
        "short_line_share": sum(len(line) <= _SHORT_LINE for line in lines) / number,
        "duplicate_line_share": sum(repeated.values()) / number,
        "duplicate_line_character_share": sum(len(line) * count for line, count in repeated.items())
        / len(text),
    }


def _of_n_grams(text: str, words: Sequence[str]) -> dict[str, float]:
    """Measures n-grams as numbers: two n-grams are the same if their first n-1 words and their last word are."""
    numbers: dict[str, int] = {}
    ids = np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int64)
    ends = np.array([0, *accumulate(map(len, words))], np.int64)
    signals = dict.fromkeys(SHARES[-len(TOP_SIZES + DUPLICATE_SIZES) :], 0.0)
    grams, are_unique = ids, False
    for size in range(2, min(len(words), DUPLICATE_SIZES[-1]) + 1):
        if are_unique and size > TOP_SIZES[-1]:
            break
        _, first, grams, counts = np.unique(
            grams[:-1] * len(numbers) + ids[size - 1 :],
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        are_unique = len(counts) == len(grams)
        if size in TOP_SIZES:
            signals[f"top_{size}gram_share"] = _top(first, counts, ends, size) / len(text)
        elif not are_unique:
            signals[f"duplicate_{size}gram_share"] = _repeated(grams, ends, size) / len(text)
    return signals


_Integers = npt.NDArray[np.int64]


def _top(first: _Integers, counts: _Integers, ends: _Integers, size: int) -> int:
    """Returns the characters of all copies of the most frequent n-gram, the first of several, with its blanks."""
    most = counts.max()
    start = first[counts == most].min()
    return int((ends[start + size] - ends[start] + size - 1) * most)


def _repeated(grams: _Integers, ends: _Integers, size: int) -> int:
    """Returns the characters of n-grams that came before, without blanks; n-grams that are counted do not overlap."""
    is_known = bytearray(len(grams))
    characters, position, numbers, lengths = 0, 0, grams.tolist(), (ends[size:] - ends[:-size]).tolist()
    while position < len(numbers):
        number = numbers[position]
        if is_known[number]:
            characters += lengths[position]
            position += size
        else:
            is_known[number] = 1
            position += 1
    return characters
