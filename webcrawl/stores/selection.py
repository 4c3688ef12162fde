"""SQL conditions on table `pages` from the options of a command line."""

from __future__ import annotations

import re
from datetime import datetime

from sqlalchemy import ColumnElement, and_, func, or_, select

from webcrawl.errors import ConfigurationError
from webcrawl.stores.columns import pages

_STATUS = re.compile(r"([1-5])(xx|\d\d)")
_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]*/(\*|[a-z0-9][a-z0-9!#$&^_.+-]*)")

CRAWLS = select(pages.c.crawl).where(pages.c.crawl.is_not(None)).distinct().order_by(pages.c.crawl)
"""Selects the names of the crawls that fetched a page last."""


def of_crawl(name: str) -> ColumnElement[bool]:
    """Rows of URLs that this crawl fetched last."""
    return pages.c.crawl == name


def begins_with(url: ColumnElement[str], prefix: str) -> list[ColumnElement[bool]]:
    """Rows whose URL begins with a text, as a range of the key."""
    return [url >= prefix, url < f"{prefix}\U0010ffff"] if prefix else []


def since(text: str) -> ColumnElement[bool]:
    """Rows of URLs whose latest attempt was at this time or later: an ISO 8601 date or time, by default in UTC.

    Raises ConfigurationError.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(
            f"{text!r} is not a time such as 2026-02-03 or 2026-02-03T12:00:00Z"
        ) from error
    return func.coalesce(pages.c.tried_at, pages.c.fetched_at) >= moment


def with_status(text: str) -> ColumnElement[bool]:
    """Rows of these statuses: "200", "2xx", or several with commas. Raises ConfigurationError."""
    wanted = []
    for status in text.lower().split(","):
        match = _STATUS.fullmatch(status.strip())
        if match is None:
            raise ConfigurationError(f"{status.strip()!r} is not a status such as 200 or 4xx")
        first = int(match[1]) * 100
        wanted.append(
            and_(pages.c.status >= first, pages.c.status < first + 100)
            if match[2] == "xx"
            else pages.c.status == int(match[0])
        )
    return or_(*wanted)


def of_type(text: str) -> ColumnElement[bool]:
    """Rows of these MIME types: "text/html", "image/*", or several with commas. Raises ConfigurationError."""
    wanted = []
    for mime_type in (name.strip().lower() for name in text.split(",")):
        if not _TYPE.fullmatch(mime_type):
            raise ConfigurationError(f"{mime_type!r} is not a MIME type such as text/html or image/*")
        column = pages.c.mime_type
        is_group = mime_type.endswith("/*")
        wanted.append(column.startswith(mime_type[:-1], autoescape=True) if is_group else column == mime_type)
    return or_(*wanted)
