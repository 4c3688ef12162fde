"""Reads the current links of pages to URLs from the link store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from webcrawl.links.questions import Opener, links_to

_AT_ONCE = 1_000

GetRow = Callable[[str], dict[str, Any] | None]
"""Returns the row of a page, or None."""


class StoredLink(NamedTuple):
    """A link on a page to a URL, as in the columns of the link store. `time`: when the page was fetched."""

    url: str
    page: str
    text: str | None
    element: str
    time: datetime


def links_known(files: Sequence[Opener], urls: Sequence[str]) -> Iterator[StoredLink]:
    """Yields the links to URLs in the last stored fetch of each page, even if the page has lost a link since."""
    for start in range(0, len(urls), _AT_ONCE):
        table = links_to(files, urls[start : start + _AT_ONCE])
        for row in table.select(["to_url", "from_url", "text", "element", "time"]).to_pylist():
            yield StoredLink(row["to_url"], row["from_url"], row["text"], row["element"], row["time"])


def links_now(files: Sequence[Opener], urls: Sequence[str], get: GetRow) -> Iterator[StoredLink]:
    """Yields the links to URLs that pages had in their last response, grouped by page."""
    page, answered = "", None
    for link in links_known(files, urls):
        if link.page != page:
            row = get(link.page)
            page, answered = link.page, None if row is None else row["fetched_at"]
        if answered is not None and link.time >= answered:
            yield link
