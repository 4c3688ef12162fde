"""Thousands of regular expressions at once: a text is searched only for those whose literal part it contains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_FEW = 32
"""So many expressions are searched for faster than they are looked up."""
_GRAM = 4
"""Characters of a literal part by which an expression is found."""

# The parts of an expression that re has accepted. What follows \x, \u, \N and numbers is not literal.
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

    Each is filed under four characters that every match of it contains, as in Russ Cox, "Regular Expression Matching
    with a Trigram Index" (2012). Of the four characters that would do, the ones are taken that the fewest expressions
    contain. Expressions without such a part, such as alternatives and those that ignore case, are always searched for.
    """

    def __init__(self, expressions: Iterable[re.Pattern[str]]) -> None:
        self._always = list(expressions)
        self._places: dict[re.Pattern[str], list[int]] = {}
        for place, one in enumerate(self._always):
            self._places.setdefault(one, []).append(place)
        self._filed: dict[str, list[re.Pattern[str]]] = {}
        if len(self._always) > _FEW:
            self._file()

    def __bool__(self) -> bool:
        return bool(self._always or self._filed)

    def match(self, text: str) -> bool:
        """Whether one of the expressions is found anywhere in the text."""
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

    def found(self, text: str) -> list[int]:
        """The places of all expressions that are found anywhere in the text, counted from 0, in order."""
        candidates = [*self._always]
        if self._filed:
            for gram in set(_grams(text)):
                candidates += self._filed.get(gram, ())
        matching = {expression for expression in candidates if expression.search(text)}
        return sorted(place for expression in matching for place in self._places[expression])

    def _file(self) -> None:
        keys = [{gram for text in literals(one) for gram in _grams(text)} for one in self._always]
        shared = Counter(gram for grams in keys for gram in grams)
        expressions, self._always = self._always, []
        for expression, grams in zip(expressions, keys, strict=True):
            if grams:
                # equally rare ones in the order of the alphabet, so that every run does the same
                rarest = min(grams, key=lambda gram: (shared[gram], gram))
                self._filed.setdefault(rarest, []).append(expression)
            else:
                self._always.append(expression)


def literals(expression: re.Pattern[str]) -> list[str]:
    """Texts that every match of the expression contains.

    There are none if it has alternatives, ignores case, or is not understood. Groups and character sets are left out.
    """
    if expression.flags & (re.IGNORECASE | re.VERBOSE):
        return []
    found = [""]
    depth = 0
    for token in _TOKEN.finditer(expression.pattern):
        kind = token.lastgroup
        if kind == "unknown":
            return []
        if kind in ("open", "close"):
            depth += 1 if kind == "open" else -1
            found.append("")
        elif depth:
            continue
        elif kind == "either":
            return []
        elif kind in ("plain", "escaped"):
            found[-1] += token[kind]
        else:
            if kind == "optional":
                found[-1] = found[-1][:-1]
            found.append("")
    return [text for text in found if text]


def _grams(text: str) -> Sequence[str]:
    """The text's parts of four characters."""
    return [text[start : start + _GRAM] for start in range(len(text) - _GRAM + 1)]
