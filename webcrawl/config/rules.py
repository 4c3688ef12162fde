"""Kinds of settings that are lists of rules with regular expressions. Their errors name the rule."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from webcrawl.config.kinds import Dict, Kind, Number, expression
from webcrawl.errors import WrongEntry

_SHIFT = re.compile(r"[+-][0-7]")
_LEVELS = range(8)


class LevelRule(NamedTuple):
    """A rule of URL_LEVELS: a number sets the level, text with a sign shifts it."""

    pattern: str
    level: int | str

    def __str__(self) -> str:
        level = f'"{self.level}"' if isinstance(self.level, str) else self.level
        return f'("{self.pattern}", {level})'


class LinkRule(NamedTuple):
    """A rule of LINK_RULES: the links to follow on pages that match `page`; None for no links."""

    page: str
    links: str | None


class LevelRules(Kind):
    """A list of pairs: a regular expression, and a level or a shift."""

    type = "list"
    allowed = "a list of pairs (regular expression, level)"

    def parse(self, value: Any) -> list[LevelRule]:
        return [
            LevelRule(_valid(number, pattern), _level(number, level))
            for number, pattern, level in _pairs(value)
        ]


class LinkRulePairs(Kind):
    """A list of pairs of regular expressions."""

    type = "list"
    allowed = "a list of pairs of regular expressions (page, link)"

    def parse(self, value: Any) -> list[LinkRule]:
        return [
            LinkRule(_valid(number, page), None if links is None else _valid(number, links))
            for number, page, links in _pairs(value)
        ]


class WeightedPatterns(Kind):
    """A dict from a regular expression to a number."""

    type = "dict"
    allowed = "a dict from a regular expression to a number"

    def parse(self, value: Any) -> dict[str, float]:
        table = Dict().parse(value)
        for number, (pattern, weight) in enumerate(table.items(), 1):
            _valid(number, pattern)
            if not Number(least=-math.inf).accepts(weight):
                raise WrongEntry(f"entry {number}: {weight!r} is not a number")
        return {pattern: float(weight) for pattern, weight in table.items()}


def _pairs(value: Any) -> Iterator[tuple[int, Any, Any]]:
    """Yields the number of each pair, from 1, and its two parts."""
    rules = json.loads(value) if isinstance(value, str) else list(value)
    if not isinstance(rules, list):
        raise TypeError(value)
    for number, rule in enumerate(rules, 1):
        if isinstance(rule, str) or not hasattr(rule, "__len__") or len(rule) < 2:
            raise WrongEntry(f"entry {number}: {rule!r} is not a pair")
        first, second, *more = rule
        if more:
            raise WrongEntry(f"entry {number}: {rule!r} has more than two parts")
        yield number, first, second


def _valid(number: int, pattern: Any) -> str:
    try:
        if not isinstance(pattern, str):
            raise TypeError("it is no text")
        return expression(pattern).pattern
    except (re.error, TypeError) as error:
        raise WrongEntry(f"entry {number}: {pattern!r} is not a regular expression: {error}") from None


def _level(number: int, value: Any) -> int | str:
    """Returns the level or the shift of a rule; raises WrongEntry."""
    if isinstance(value, str) and _SHIFT.fullmatch(value):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value in _LEVELS:
        return value
    raise WrongEntry(
        f'entry {number}: {value!r} is neither a level from 0 to 7 nor a shift, which is text, from "-7" to "+7"'
    )
