"""What the pages of a list have in common, as a command line or a form has it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import ColumnElement

from webcrawl.stores.columns import pages
from webcrawl.stores.selection import (
    at_depth,
    in_language,
    moment,
    of_crawl,
    of_host,
    of_type,
    statuses,
    types,
    with_duplicates,
    with_status,
    with_words,
)

_USUAL_STATUS = 200
_USUAL_TYPE = "text/html"
_DATE = len("2026-02-03")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFilter:
    """The values of a filter; "" stands for any. Methods raise ConfigurationError for a wrong value.

    `status`: "404", "5xx", "none" (no response), or several with commas. `host`: "https://example.org". `mime_type`:
    "text/html", "image/*". `language`: "de". `depth`: "2", "0-2", "3-". `duplicates`: any, exact, near or no. `since`
    and `until`: times of the latest attempt in ISO 8601, UTC unless they say otherwise; `until` includes a whole day.
    `text`: a part of the URL or title.
    """

    crawl: str = ""
    status: str = ""
    host: str = ""
    mime_type: str = ""
    language: str = ""
    depth: str = ""
    duplicates: str = ""
    since: str = ""
    until: str = ""
    text: str = ""

    def conditions(self) -> list[ColumnElement[bool]]:
        """Returns the SQL conditions on table `pages`."""
        conditions = {
            of_crawl: self.crawl,
            with_status: self.status,
            of_host: self.host,
            of_type: self.mime_type,
            in_language: self.language,
            at_depth: self.depth,
            with_duplicates: self.duplicates,
            with_words: self.text,
        }
        return [condition(value) for condition, value in conditions.items() if value] + self.times()

    def times(self) -> list[ColumnElement[bool]]:
        """Returns the conditions on the time of the latest attempt."""
        tried = pages.c.tried_at
        conditions = [tried >= moment(self.since)] if self.since else []
        if self.until:
            whole_day = timedelta(days=len(self.until.strip()) == _DATE)
            conditions.append(tried < moment(self.until) + whole_day)
        return conditions

    def unusual_statuses(self) -> tuple[int, int] | None:
        """Returns the least and the greatest wanted status; None if there is no filter, or 200 or "none" is wanted."""
        ranges = statuses(self.status) if self.status else []
        if not ranges or any(least is None or least <= _USUAL_STATUS < below for least, below in ranges):
            return None
        return min(least for least, _ in ranges if least), max(below for _, below in ranges) - 1

    @property
    def is_unanswered(self) -> bool:
        """Whether only URLs without an answer are wanted."""
        return bool(self.status) and statuses(self.status) == [(None, 0)]

    def unusual_type(self) -> str | None:
        """Returns the wanted MIME type; None if there is no filter, or HTML or more than one type is wanted."""
        names = types(self.mime_type) if self.mime_type else []
        return names[0] if len(names) == 1 and names[0] != _USUAL_TYPE and "*" not in names[0] else None
