"""Searches for thousands of regular expressions at once: only for those whose literal part the text contains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_FEW = 32
"""Up to this number of expressions, a search for all of them is faster than an index."""
_GRAM = 4
"""The length of the literal parts in the index, in characters."""

# The parts of an expression that `re` accepts. Characters after \x, \u, \N and numbers are not literal.
_TOKEN = re.compile(
    r"(?P<charset>\[\^?\]?(?:\\[\s\S]|[^\]\\])*\])"
    r"|(?P<optional>[*?]|\{\d*,?\d*\})"
    r"|\\(?P<escaped>[^0-9A-Za-z])"
    r"|(?P<wide>\\[dDwWsSbBAZ]|[.^$+])"
    r"|(?P<unknown>\\|\(\?#)"
    r"|(?P<open>\()"
    r"|(?P<close>\))"
    r"|(?P<either>\|)"
    r"|(?P<plain>[\w/:%&=~@,;-]+|[\s\S])"
)


class Patterns:
    """Regular expressions that are searched for in a text.

    Each expression is filed under four characters in a row that every match contains, as in Russ Cox, "Regular
    Expression Matching with a Trigram Index" (2012); of several such groups, the group in the fewest expressions is
    used. Alternatives and expressions that ignore case have no such group, so they are always searched for.
    """

    def __init__(self, expressions: Iterable[re.Pattern[str]]) -> None:
        self._always = list(expressions)
        self._indices: dict[re.Pattern[str], list[int]] = {}
        for index, expression in enumerate(self._always):
            self._indices.setdefault(expression, []).append(index)
        self._filed: dict[str, list[re.Pattern[str]]] = {}
        if len(self._always) > _FEW:
            self._file()

    def __bool__(self) -> bool:
        return bool(self._always or self._filed)

    def match(self, text: str) -> bool:
        """Whether an expression matches anywhere in the text."""
        for expression in self._always:
            if expression.search(text):
                return True
        if self._filed:
            filed_under = self._filed.get
            for gram in _grams(text):
                for expression in filed_under(gram, ()):
                    if expression.search(text):
                        return True
        return False

    def matching(self, text: str) -> list[int]:
        """Returns the indices of all expressions that match anywhere in the text, in order."""
        candidates = [*self._always]
        if self._filed:
            for gram in set(_grams(text)):
                candidates += self._filed.get(gram, ())
        matching = {expression for expression in candidates if expression.search(text)}
        return sorted(index for expression in matching for index in self._indices[expression])

    def _file(self) -> None:
        keys = [
            {gram for text in literals(expression) for gram in _grams(text)} for expression in self._always
        ]
        shared = Counter(gram for grams in keys for gram in grams)
        expressions, self._always = self._always, []
        for expression, grams in zip(expressions, keys, strict=True):
            if grams:
                # of equally rare grams, the first in the alphabet, so that every run does the same
                rarest = min(grams, key=lambda gram: (shared[gram], gram))
                self._filed.setdefault(rarest, []).append(expression)
            else:
                self._always.append(expression)


def literals(expression: re.Pattern[str]) -> list[str]:
    """Returns texts that every match of the expression contains.

    Returns none if the expression has alternatives, ignores case, or is not understood; leaves out groups and sets.
    """
    if expression.flags & (re.IGNORECASE | re.VERBOSE):
        return []
    texts = [""]
    depth = 0
    for token in _TOKEN.finditer(expression.pattern):
        kind = token.lastgroup
        if kind == "unknown":
            return []
        if kind in ("open", "close"):
            depth += 1 if kind == "open" else -1
            texts.append("")
        elif depth:
            continue
        elif kind == "either":
            return []
        elif kind in ("plain", "escaped"):
            texts[-1] += token[kind]
        else:
            if kind == "optional":
                texts[-1] = texts[-1][:-1]
            texts.append("")
    return [text for text in texts if text]


def _grams(text: str) -> Sequence[str]:
    """Returns all parts of a text that have four characters."""
    return [text[start : start + _GRAM] for start in range(len(text) - _GRAM + 1)]
