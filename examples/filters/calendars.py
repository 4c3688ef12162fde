"""Drops the endless pages of calendars."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Self

from webcrawl import ConfigurationError, URLFilter

_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")


class CalendarFilter(URLFilter):
    """Drops URLs that name a year after `last_year`. Key: URL_LAST_YEAR, by default the next year."""

    why = "A calendar has a page for every day to come."

    def __init__(self, last_year: int) -> None:
        self._last_year = last_year

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        value = str(config.get("URL_LAST_YEAR") or date.today().year + 1)
        if not value.isdecimal():
            raise ConfigurationError(f"URL_LAST_YEAR must be a year, not {value!r}")
        return cls(int(value))

    def apply(self, url: str) -> str | None:
        years = (int(year) for year in _YEAR.findall(url.partition("://")[2]))
        return None if any(year > self._last_year for year in years) else url
