"""The setting FETCH_MAX_AGE: how old a stored page may be, by host or URL pattern."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UnsetType

from webcrawl.config.kinds import Seconds
from webcrawl.crawler.render.rules import RenderRules
from webcrawl.errors import ConfigurationError

_ALL = "*"


class MaxAges:
    """The age in seconds by rule: hosts and URL patterns as in RENDER, or "*" for all pages. The first match counts.

    Raises ConfigurationError for a rule that matches no page.
    """

    def __init__(self, ages: Mapping[str, float]) -> None:
        self._rules: list[tuple[RenderRules | None, float]] = []
        for rule, age in ages.items():
            try:
                self._rules.append((None if rule == _ALL else RenderRules([rule]), age))
            except ConfigurationError as error:
                raise ConfigurationError(str(error).replace("RENDER", "FETCH_MAX_AGE", 1)) from error

    def of(self, url: str) -> float:
        """Returns the age in seconds for a normalized URL; 0 if no rule matches."""
        return next((age for rules, age in self._rules if rules is None or rules.apply(url)), 0.0)

    def wanted(self, url: str, age: float | str | UnsetType) -> float:
        """Returns the age that a request gives, or else that of the setting; raises ConfigurationError."""
        return self.of(url) if isinstance(age, UnsetType) else float(Seconds().parse(age))
