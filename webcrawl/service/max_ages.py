"""The setting FETCH_MAX_AGE: how old a stored page may be, by host or URL pattern."""

from __future__ import annotations

from msgspec import UnsetType

from webcrawl.config.kinds import Seconds
from webcrawl.crawler.render.rules import RuleTable


class MaxAges(RuleTable[float]):
    """The age in seconds by rule."""

    def wanted(self, url: str, age: float | str | UnsetType) -> float:
        """Returns the age that a request gives, or else that of the setting; raises ConfigurationError."""
        return self.of(url, 0.0) if isinstance(age, UnsetType) else float(Seconds().parse(age))
