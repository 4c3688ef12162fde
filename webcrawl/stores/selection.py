"""SQL conditions on table `pages` from the options of a command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ARRAY, ColumnElement, Dialect, Select, Text, and_, func, literal, or_, select

from webcrawl.errors import ConfigurationError
from webcrawl.stores.columns import in_utc, pages

_STATUS = re.compile(r"([1-5])(xx|\d\d)")
_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]*/(\*|[a-z0-9][a-z0-9!#$&^_.+-]*)")

_LANGUAGE = re.compile(r"[a-z]{2,8}(-[a-z0-9]{1,8})*")
_DEPTH = re.compile(r"(\d{1,9})(?:(-)(\d{1,9})?)?")
DUPLICATES = ("any", "exact", "near", "no")

CRAWLS = select(pages.c.crawl).where(pages.c.crawl.is_not(None)).distinct().order_by(pages.c.crawl)
"""Selects the names of the crawls that fetched a page last."""


def of_crawl(name: str) -> ColumnElement[bool]:
    """Rows of URLs that this crawl fetched last."""
    return pages.c.crawl == name


def with_urls(urls: Sequence[str], dialect: Dialect) -> ColumnElement[bool]:
    """Rows of these URLs, at most some thousand."""
    return pages.c.url.in_(urls if dialect.name == "sqlite" else each_of(literal(urls, ARRAY(Text))))


def each_of(urls: ColumnElement[Sequence[str]]) -> Select[tuple[str]]:
    """Selects the URLs of an array in PostgreSQL.

    Of a list or an array, PostgreSQL would look for each URL in each partition: three times as long with 16 of them. A
    joined URL is looked for in its own.
    """
    return select(func.unnest(urls, type_=Text).column_valued("wanted"))


def of_host(host: str) -> ColumnElement[bool]:
    """Rows of a host such as "https://example.org", as a range of the key."""
    return and_(pages.c.url >= f"{host}/", pages.c.url < f"{host}0")


def begins_with(url: ColumnElement[str], prefix: str) -> list[ColumnElement[bool]]:
    """Rows whose URL begins with a text, as a range of the key."""
    return [url >= prefix, url < f"{prefix}\U0010ffff"] if prefix else []


def since(text: str) -> ColumnElement[bool]:
    """Rows of URLs whose latest attempt was at this time or later: an ISO 8601 date or time, by default in UTC.

    Raises ConfigurationError.
    """
    return func.coalesce(pages.c.tried_at, pages.c.fetched_at) >= moment(text)


def moment(text: str) -> datetime:
    """Returns an ISO 8601 date or time, by default in UTC; raises ConfigurationError."""
    try:
        return in_utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{text!r} is not a time such as 2026-02-03 or 2026-02-03T12:00:00Z"
        ) from error


def with_status(text: str) -> ColumnElement[bool]:
    """Rows of these statuses: "200", "2xx", "none" (no response), or several with commas. Raises ConfigurationError."""
    wanted: list[ColumnElement[bool]] = []
    for least, below in statuses(text):
        if least is None:
            wanted.append(pages.c.status.is_(None))
        elif below == least + 1:
            wanted.append(pages.c.status == least)
        else:
            wanted.append(and_(pages.c.status >= least, pages.c.status < below))
    return or_(*wanted)


def statuses(text: str) -> list[tuple[int | None, int]]:
    """Returns the ranges of statuses in a text of `with_status`: the least status, and the status behind the last.

    A range that begins with None is that of URLs without an answer. Raises ConfigurationError.
    """
    ranges: list[tuple[int | None, int]] = []
    for status in (name.strip() for name in text.lower().split(",")):
        if status == "none":
            ranges.append((None, 0))
            continue
        match = _STATUS.fullmatch(status)
        if match is None:
            raise ConfigurationError(f"{status!r} is not a status such as 200, 4xx or none")
        least = int(match[1]) * 100 if match[2] == "xx" else int(match[0])
        ranges.append((least, least + (100 if match[2] == "xx" else 1)))
    return ranges


def of_type(text: str) -> ColumnElement[bool]:
    """Rows of these MIME types: "text/html", "image/*", or several with commas. Raises ConfigurationError."""
    wanted = []
    for mime_type in types(text):
        column = pages.c.mime_type
        is_group = mime_type.endswith("/*")
        wanted.append(column.startswith(mime_type[:-1], autoescape=True) if is_group else column == mime_type)
    return or_(*wanted)


def types(text: str) -> list[str]:
    """Returns the MIME types in a text of `of_type`; raises ConfigurationError."""
    names = [name.strip().lower() for name in text.split(",")]
    for mime_type in names:
        if not _TYPE.fullmatch(mime_type):
            raise ConfigurationError(f"{mime_type!r} is not a MIME type such as text/html or image/*")
    return names


def in_language(text: str) -> ColumnElement[bool]:
    """Rows in these languages: "de", which has "de-AT" too, "none" (not known), or several with commas.

    Raises ConfigurationError.
    """
    wanted: list[ColumnElement[bool]] = []
    column = pages.c.language
    for language in (name.strip().lower() for name in text.split(",")):
        if language == "none":
            wanted.append(column.is_(None))
            continue
        if not _LANGUAGE.fullmatch(language):
            raise ConfigurationError(f"{language!r} is not a code of a language such as de or pt-br")
        lower = func.lower(column)
        wanted.append(or_(lower == language, lower.startswith(f"{language}-")))
    return or_(*wanted)


def at_depth(text: str) -> ColumnElement[bool]:
    """Rows at these numbers of links from a seed: "2", "0-2" or "3-". Raises ConfigurationError."""
    match = _DEPTH.fullmatch(text.strip())
    if match is None:
        raise ConfigurationError(f"{text!r} is not a depth such as 2, 0-2 or 3-")
    least, dash, most = match.groups()
    if not dash:
        return pages.c.depth == int(least)
    return and_(pages.c.depth >= int(least), *([pages.c.depth <= int(most)] if most else []))


def with_duplicates(kind: str) -> ColumnElement[bool]:
    """Rows of copies: "exact", "near", "any", or "no" for all others. Raises ConfigurationError."""
    if kind not in DUPLICATES:
        raise ConfigurationError(f"{kind!r} is no kind of duplicates: choose one of {', '.join(DUPLICATES)}")
    column = pages.c.duplicate_kind
    return {"no": column.is_(None), "any": column.is_not(None)}.get(kind, column == kind)


def with_words(text: str) -> ColumnElement[bool]:
    """Rows whose URL or title contains a text; upper and lower case of ASCII letters are the same."""
    return or_(pages.c.url.icontains(text, autoescape=True), pages.c.title.icontains(text, autoescape=True))
