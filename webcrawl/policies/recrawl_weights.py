"""Weights that an operator gives to pages of a recrawl: clicks, traffic, the tier of an index (RECRAWL_WEIGHTS).

They come from a column of table `pages`, or from a file with a line for each URL, pattern or domain:

    https://shop.example/               20
    https://shop.example/product/*      5
    archive.example                     0.1     # with all names under it
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple, Self

from webcrawl.config.records import setting_entries
from webcrawl.errors import ConfigurationError, InvalidURL
from webcrawl.urls.canonical import hostname, normalize, split
from webcrawl.urls.domains import domain

SETTING = "RECRAWL_WEIGHTS"
_COLUMN = re.compile(r"(details\.)?[A-Za-z_][\w-]*")
_DETAILS = "details."


class WeightPattern(NamedTuple):
    """A URL in which `*` stands for any characters, as an expression, and its weight."""

    expression: re.Pattern[str]
    weight: float


class RecrawlWeights:
    """Weights of pages: factors of their importance.

    `column`: the column of table `pages` that has them, or "details.KEY"; empty without.
    """

    def __init__(self, column: str = "", entries: Iterable[tuple[str, str]] = ()) -> None:
        """`entries`: where each is written, and its text. Raises ConfigurationError."""
        self.column = column
        self._key = column.removeprefix(_DETAILS) if column.startswith(_DETAILS) else ""
        self._urls: dict[tuple[str, str], float] = {}
        self._domains: dict[str, float] = {}
        patterns: list[tuple[str, float]] = []
        for where, text in entries:
            name, weight = _entry(where, text)
            if "*" in name:
                patterns.append((name, weight))
            elif "://" in name:
                self._urls[_split(where, name)] = weight
            else:
                self._domains[_domain(where, name)] = weight
        patterns.sort(key=lambda entry: len(entry[0]), reverse=True)
        self._patterns = [WeightPattern(_expression(name), weight) for name, weight in patterns]

    @classmethod
    def of_setting(cls, value: str) -> Self:
        """Returns the weights of RECRAWL_WEIGHTS; raises ConfigurationError, which names file and line."""
        if value.startswith("@"):
            return cls(entries=setting_entries(SETTING, [value], comment=" #"))
        if value and not _COLUMN.fullmatch(value):
            raise ConfigurationError(
                f"{SETTING} must be a column of table pages, details.KEY or @FILE, not {value!r}"
            )
        return cls(value)

    def of_url(self, host: str, path: str) -> float:
        """Returns the weight of a page in the file: that of its URL, its longest pattern, or its longest domain."""
        if (weight := self._urls.get((host, path))) is not None:
            return weight
        if self._patterns:
            url = host + path
            for pattern in self._patterns:
                if pattern.expression.fullmatch(url):
                    return pattern.weight
        if self._domains:
            name = hostname(host).removesuffix(".")
            while name:
                if (weight := self._domains.get(name)) is not None:
                    return weight
                name = name.partition(".")[2]
        return 1.0

    def of_row(self, stored: object, details: Mapping[str, object] | None = None) -> float:
        """Returns the weight of a page in the column; `details` are those of a response that is not stored yet."""
        return number_of(details[self._key] if details and self._key in details else stored)


def number_of(stored: object) -> float:
    """Returns a stored weight; 1 for a page without, or with a value that is no weight."""
    if not isinstance(stored, int | float | Decimal):
        return 1.0
    weight = float(stored)
    return weight if 0 <= weight < math.inf else 1.0


def _entry(where: str, text: str) -> tuple[str, float]:
    name, _, number = text.replace("\t", " ").rpartition(" ")
    try:
        weight = float(number)
    except ValueError:
        weight = math.nan
    if not name or not 0 <= weight < math.inf:
        raise _wrong(where, text, "is no URL, pattern or domain with a weight of at least 0 behind it")
    return name.strip(), weight


def _split(where: str, url: str) -> tuple[str, str]:
    try:
        return split(normalize(url))
    except InvalidURL as error:
        raise _wrong(where, url, f"is not a URL: {error}") from None


def _domain(where: str, text: str) -> str:
    try:
        return domain(text)
    except ValueError as error:
        raise _wrong(where, text, str(error)) from None


def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))))


def _wrong(where: str, text: str, what: str) -> ConfigurationError:
    return ConfigurationError(f"{SETTING}, {where}: {text!r} {what}")
