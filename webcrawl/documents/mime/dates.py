"""Parses the dates in pages, written for people or for machines."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

_MAX_CHARS = 64
_EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_SPACED_ZONE = re.compile(r"\s+(?=[+-]\d\d:?\d\d$)")
_IN_WORDS = ("%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%b. %d, %Y")
_IN_PATH = re.compile(r"/((?:19|20)\d\d)/(0[1-9]|1[0-2])/(0[1-9]|[12]\d|3[01])(?=[/_-]|$)")


def read_date(text: str | None) -> datetime | None:
    """Returns when something was published: a `written_date` that is neither before 1900 nor in the future, or None."""
    moment = written_date(text)
    # one day more: the author may live where tomorrow has begun
    if moment is None or not _EARLIEST <= moment <= datetime.now(UTC) + timedelta(days=1):
        return None
    return moment


def written_date(text: str | None) -> datetime | None:
    """Returns a time in UTC; a day means its midnight, and a time without zone is in UTC.

    Understands ISO 8601, "2024/5/17", RFC 2822 and "May 17, 2024". Returns None for other texts.
    """
    text = " ".join((text or "")[: 2 * _MAX_CHARS].split())
    if not 6 <= len(text) <= _MAX_CHARS or not any(letter.isdigit() for letter in text):
        return None
    for read in (_iso, _day, _rfc, _words):
        try:
            moment = read(text)
            if moment is not None:
                moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError):
            continue
        if moment is not None:
            return moment
    return None


def date_in_path(path: str) -> datetime | None:
    """Returns the day in a path such as /2024/05/17/, which blogs and news sites have."""
    match = _IN_PATH.search(path)
    return read_date("-".join(match.groups())) if match else None


def _iso(text: str) -> datetime | None:
    return datetime.fromisoformat(_SPACED_ZONE.sub("", text))


def _day(text: str) -> datetime | None:
    match = _YEAR_FIRST.match(text)
    return datetime(int(match[1]), int(match[2]), int(match[3])) if match else None


def _rfc(text: str) -> datetime | None:
    return parsedate_to_datetime(text)


def _words(text: str) -> datetime | None:
    for form in _IN_WORDS:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    return None
