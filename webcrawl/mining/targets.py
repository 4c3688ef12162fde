"""The value of a page, as `scrapy mine --target` names it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from webcrawl.mining.page_condition import PageCondition, is_condition

_DETAILS = "details."
_LENGTH = "text_length"
_SOUND = ("status", "duplicate_of", "soft_404")


@dataclass(frozen=True)
class Target:
    """The value of pages.

    name    "text", "links", "importance", "details.KEY", a column of table `pages`, or a condition, as given
    column  the column with the value; empty for "links", which are counted in the link store, and for a condition
    key     the key in the JSON objects of `column`, if it has JSON objects
    judged  whether a page that failed or is a copy has the value 0
    condition  pages for which it holds have the value 1, and others 0
    """

    name: str
    column: str
    key: str = ""
    judged: bool = False
    condition: PageCondition | None = None

    @classmethod
    def named(cls, name: str) -> Target:
        """Returns the target of this name; whether the column exists is not checked.

        Raises ConfigurationError for a condition that cannot be evaluated.
        """
        if is_condition(name):
            return cls(name, "", judged=True, condition=PageCondition(name))
        if name == "text":
            return cls(name, "details", _LENGTH, judged=True)
        if name == "links":
            return cls(name, "", judged=True)
        if name.startswith(_DETAILS):
            return cls(name, "details", name.removeprefix(_DETAILS))
        return cls(name, name)

    @property
    def columns(self) -> Sequence[str]:
        """The columns that `value` reads."""
        wanted = self.condition.columns if self.condition else [self.column] if self.column else []
        return [*wanted, *_SOUND]

    @property
    def needs_links(self) -> bool:
        """Whether the value is counted in the link store."""
        return not self.column and self.condition is None

    @property
    def is_own_column(self) -> bool:
        """Whether the target is a column of table `pages` whose existence must be checked."""
        return bool(self.column) and not self.key

    def values(self, rows: Sequence[Mapping[str, Any]]) -> list[float | None]:
        """Returns the values of pages, see `value`."""
        values = list(map(self.value, rows))
        if self.condition is None:
            return values
        holds = self.condition.holds(rows)
        return [value and float(is_wanted) for value, is_wanted in zip(values, holds, strict=True)]

    def value(self, row: Mapping[str, Any]) -> float | None:
        """Returns the value of a page, None if it is not known; for links and conditions, 1 if the page counts."""
        if self.judged and not is_sound(row):
            # a missing answer says nothing about the URL
            return None if row["status"] is None else 0.0
        if not self.column:
            return 1.0
        value = row[self.column]
        if self.key:
            value = value.get(self.key) if isinstance(value, Mapping) else None
        return _number(value)


def text_length(row: Mapping[str, Any]) -> int | None:
    """Returns the number of characters of a page's main text; None if it is not known."""
    length = (row["details"] or {}).get(_LENGTH)
    return length if isinstance(length, int) else None


def is_sound(row: Mapping[str, Any]) -> bool:
    """Returns whether a page has content of its own: it is no error page, no soft 404 and no copy."""
    return (
        row["status"] is not None
        and row["status"] // 100 == 2
        and not (row["duplicate_of"] or row["soft_404"])
    )


def _number(value: object) -> float | None:
    if not isinstance(value, int | float | Decimal):
        return None
    number = float(value)
    return number if math.isfinite(number) else None
