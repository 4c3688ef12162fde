"""Parses the dates in pages, written for people or for machines."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

_MAX_CHARS = 64
_EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
_REMARK = re.compile(r"\s*\([^()]*\)$")
_SPACED_ZONE = re.compile(r"\s+(?=[+-]\d\d:?\d\d$)")
_DAY_WITH_ZONE = re.compile(r"[\d-]{8,10}(?:Z|[+-]\d\d:\d\d)")
_YEAR_FIRST = re.compile(r"(\d{4})\s?[-/.年년]\s?(\d{1,2})\s?[-/.月월]\s?(\d{1,2})(?!\d)")
_YEAR_LAST = re.compile(r"(\d{1,2})([-/.])\s?(\d{1,2})\2\s?(\d{4})(?!\d)")
_IN_PATH = re.compile(r"/((?:19|20)\d\d)/(0[1-9]|1[0-2])/(0[1-9]|[12]\d|3[01])(?=[/_-]|$)")
_WEEKDAY = r"(?:[^\W\d_]+[.,]*\s+)?"
_NAME = r"([^\W\d_]{3,12})"
_DAY_AND_NAME = re.compile(
    rf"{_WEEKDAY}(\d{{1,2}})(?:st|nd|rd|th|er|\.|º)?[\s-]+(?:de\s+|of\s+)?{_NAME}[.,]?[\s-]+(?:de\s+)?(\d{{4}})(?!\d)",
    re.IGNORECASE,
)
_NAME_AND_DAY = re.compile(
    rf"{_WEEKDAY}{_NAME}\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+(\d{{4}})(?!\d)", re.IGNORECASE
)
_MONTHS = (
    "january jan januar janvier janv enero ene gennaio gen januari styczeń stycznia января янв ocak",
    "february feb februar février févr fevrier febrero fevereiro fev febbraio febr februari luty lutego февраля şubat",
    "march mar märz maerz mars marzo março marco maart marca marzec марта mart",
    "april apr avril avr abril abr aprile kwiecień kwietnia апреля апр nisan",
    "may mai mayo maio maggio mag mei maj maja мая mayıs",
    "june jun juni juin junio junho giugno giu czerwiec czerwca июня haziran",
    "july jul juli juillet juil julio julho luglio lug lipiec lipca июля temmuz",
    "august aug août aout agosto ago augustus augusti sierpień sierpnia августа авг ağustos",
    "september sep sept septembre septiembre setembro set settembre wrzesień września сентября сент eylül",
    "october oct oktober okt octobre octubre outubro out ottobre ott październik października октября окт ekim",
    "november nov novembre noviembre novembro listopad listopada ноября нояб kasım",
    "december dec dezember dez décembre déc decembre diciembre dic dezembro dicembre grudzień grudnia декабря дек"
    " aralık",
)
"""The names of months, and what they are shortened to, in the languages of most pages."""
_MONTH_OF = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_TIME = re.compile(
    r"(?<![\d+-])(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,](\d{1,6})\d*)?)?"
    r"(?:\s?([ap])\.?m\b\.?)?(?:\s?(?:UTC|GMT)?([+-]\d{1,2}):?(\d\d)?|\s?([A-Z]{1,4})\b)?",
    re.IGNORECASE,
)
_ZONES = {
    **{"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7},
    **{"CET": 1, "CEST": 2, "MEZ": 1, "MESZ": 2, "MSK": 3, "JST": 9},
}


def read_date(text: str | None) -> datetime | None:
    """Returns when something was published: a `written_date` that is neither before 1900 nor in the future, or None."""
    moment = written_date(text)
    # one day more: the author may live where tomorrow has begun
    if moment is None or not _EARLIEST <= moment <= datetime.now(UTC) + timedelta(days=1):
        return None
    return moment


def written_date(text: str | None) -> datetime | None:
    """Returns a time in UTC; a day means its midnight, and a time without zone is in UTC.

    Understands ISO 8601, "2024/5/17", "17.5.2024", RFC 2822, the form of JavaScript, and days whose month has a name in
    one of twelve languages. Returns None for other texts, and for "5/6/2024", of which nobody knows the month.
    """
    text = _REMARK.sub("", " ".join((text or "")[: 2 * _MAX_CHARS].split()))
    if not 6 <= len(text) <= _MAX_CHARS or not any(letter.isdigit() for letter in text):
        return None
    for read in (_iso, _year_first, _named, _year_last, parsedate_to_datetime):
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
    if _DAY_WITH_ZONE.fullmatch(text):  # Python takes the zone for a time
        return None
    return datetime.fromisoformat(_SPACED_ZONE.sub("", text))


def _year_first(text: str) -> datetime | None:
    match = _YEAR_FIRST.match(text)
    if match is None:
        return None
    return _with_time(datetime(int(match[1]), int(match[2]), int(match[3])), text[match.end() :])


def _named(text: str) -> datetime | None:
    if match := _DAY_AND_NAME.match(text):
        day, name, year = match.groups()
    elif match := _NAME_AND_DAY.match(text):
        name, day, year = match.groups()
    else:
        return None
    month = _MONTH_OF.get(name.lower())
    if month is None:
        return None
    return _with_time(datetime(int(year), month, int(day)), text[match.end() :])


def _year_last(text: str) -> datetime | None:
    """Reads "17.5.2024", and "17/5/2024" or "5/17/2024" if only one order of day and month is possible."""
    match = _YEAR_LAST.match(text)
    if match is None:
        return None
    first, second = int(match[1]), int(match[3])
    if match[2] == "." or first > 12:
        day, month = first, second
    elif second > 12 or first == second:
        day, month = second, first
    else:
        return None
    return _with_time(datetime(int(match[4]), month, day), text[match.end() :])


def _with_time(day: datetime, rest: str) -> datetime:
    """Returns a day with the time in the text after it, or without one that is not valid."""
    match = _TIME.search(rest)
    if match is None:
        return day
    hour, minute, second = (int(part or 0) for part in match.group(1, 2, 3))
    if half := match[5]:
        hour = hour % 12 + (12 if half in "pP" else 0)
    hours = _ZONES.get((match[8] or "").upper(), 0)
    offset = timedelta(hours=hours)
    if match[6]:
        minutes = timedelta(minutes=int(match[7] or 0))
        offset = timedelta(hours=int(match[6])) + (-minutes if match[6][0] == "-" else minutes)
    try:
        fraction = int((match[4] or "0").ljust(6, "0"))
        return day.replace(
            hour=hour, minute=minute, second=second, microsecond=fraction, tzinfo=timezone(offset)
        )
    except ValueError:
        return day
