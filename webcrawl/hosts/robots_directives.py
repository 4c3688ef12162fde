"""The robots directives of a page: X-Robots-Tag headers and <meta name="robots">."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from webcrawl.hosts.robots import TOKEN, product_token


@dataclass(frozen=True, slots=True)
class Directives:
    """The directives of a page: not to index it, not to follow its links, not to archive it.

    `noai`, `noimageai`: not to use it, or its images, for artificial intelligence (DeviantArt 2022).
    """

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False
    noai: bool = False
    noimageai: bool = False


def directives(
    x_robots_tag: Iterable[str],
    meta: Iterable[tuple[str, str]],
    user_agent: str,
    *,
    now: datetime | None = None,
) -> Directives:
    """Returns the directives for a user agent in X-Robots-Tag values and <meta> (name, content) pairs.

    Directives for all agents and for this agent add up, as in search engines. `unavailable_after` a time before
    `now` (by default the time of the call) means noindex.
    """
    token = product_token(user_agent)
    words: set[str] = set()
    for value in x_robots_tag:
        words.update(_addressed_to(token, value, "robots", now))
    for name, content in meta:
        words.update(_addressed_to(token, content, name.strip().lower(), now))
    return Directives(
        noindex=not words.isdisjoint({"noindex", "none"}),
        nofollow=not words.isdisjoint({"nofollow", "none"}),
        noarchive=not words.isdisjoint({"noarchive", "nocache"}),
        noai="noai" in words,
        noimageai="noimageai" in words,
    )


# One directive of a list, with an optional user agent before it. A date may contain a comma
# ("Wed, 25 Jun 2025 15:00:00 GMT"), and a directive with a value after a colon looks like a user agent.
_DIRECTIVE = re.compile(
    rf"\s*(?:(?!unavailable_after|max-)(?P<agent>{TOKEN})\s*:)?\s*"
    r"(?:unavailable_after\s*:(?P<date>\s*(?:[a-z]{3,9},)?[^,]*)|(?P<word>[^,]*))(?:,|$)",
    re.IGNORECASE,
)


def _addressed_to(token: str, text: str, audience: str, now: datetime | None) -> Iterator[str]:
    """Yields the directives of one list for all agents or for `token`; "name:" changes the agent for what follows."""
    for match in _DIRECTIVE.finditer(text):
        audience = (match["agent"] or audience).lower()
        if audience not in ("robots", token):
            continue
        if match["date"] is None:
            # a missing comma forbids no less
            yield from match["word"].lower().split()
        elif _is_past(match["date"], now):
            yield "noindex"


def _is_past(date: str, now: datetime | None) -> bool:
    """Whether an RFC 822, RFC 850 or ISO 8601 date has passed; False if it cannot be parsed."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(date.strip())
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return moment.replace(tzinfo=moment.tzinfo or UTC) <= (now or datetime.now(UTC))
    return False
