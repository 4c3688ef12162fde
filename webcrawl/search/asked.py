"""Reads the filters of a search as people write them: on a command line, or in a form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from webcrawl.errors import ConfigurationError
from webcrawl.search.query import Filters
from webcrawl.search.schema import MEDIA, PAGE
from webcrawl.stores.selection import of_type


def asked_filters(
    *,
    host: str | None = None,
    language: str | None = None,
    type: str | None = None,  # the name of the option
    since: str | None = None,
    until: str | None = None,
    crawl: str | None = None,
    media: bool = False,
) -> Filters:
    """Returns the filters; None is no condition. Raises ConfigurationError."""
    if type:
        of_type(type)  # raises ConfigurationError
    return Filters(
        host=host,
        languages=_words(language),
        types=_words(type),
        since=read_time("--since", since),
        until=read_time("--until", until, is_end=True),
        crawl=crawl,
        kinds=MEDIA if media else (PAGE,),
    )


def _words(text: str | None) -> list[str]:
    return [word.strip().lower() for word in (text or "").split(",") if word.strip()]


def read_time(option: str, text: str | None, *, is_end: bool = False) -> datetime | None:
    """Reads the date or time of an option, by default in UTC. A date that ends a period includes its day."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        is_date = len(text) == len("2026-02-03")
        if is_end and is_date:
            moment += timedelta(days=1, microseconds=-1)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{option}: {text!r} is not a time such as 2026-02-03 or 2026-02-03T12:00:00Z"
        ) from error
