"""Levels by regular expression: the setting URL_LEVELS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from webcrawl.config import read
from webcrawl.config.kinds import expression
from webcrawl.config.rules import LevelRule
from webcrawl.urls.patterns import Patterns

_LOWEST = 7


class UrlLevels:
    """Changes the levels of URLs that match regular expressions.

    Of the rules that match a URL, the first that sets a level replaces the level of its weight. The shifts of all that
    match are added, and the sum is limited to the levels 0 to 7.
    """

    def __init__(self, rules: Sequence[LevelRule]) -> None:
        self._rules = tuple(rules)
        self._patterns = Patterns(expression(rule.pattern) for rule in self._rules)

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self | None:
        """Reads URL_LEVELS; returns None if it is empty."""
        rules = tuple(read(config, "URL_LEVELS"))
        return cls(rules) if rules else None

    def change(self, url: str, level: int) -> int:
        """Returns the level of a URL that would have this one without the rules."""
        matching = self._patterns.found(url)
        if not matching:
            return level
        base: int | None = None
        shift = 0
        for number in matching:
            change = self._rules[number].level
            if isinstance(change, str):
                shift += int(change)
            elif base is None:
                base = change
        return min(max((level if base is None else base) + shift, 0), _LOWEST)

    def matching(self, url: str) -> tuple[str, ...]:
        """Returns the rules that match a URL, as they are written in settings."""
        return tuple(str(self._rules[number]) for number in self._patterns.found(url))
