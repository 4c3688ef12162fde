"""Marks the pages that are new, changed or gone since a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal

from sqlalchemy import ColumnElement, or_

from webcrawl.results.versions import UNREACHABLE
from webcrawl.stores.columns import pages
from webcrawl.stores.history import UNCHANGED, state
from webcrawl.stores.locations import Row
from webcrawl.stores.metadata import StoredFetch

Change = Literal["new", "changed", "gone"]

COLUMN = "change"
"""The name of the column with the mark."""


def changed_since(moment: datetime) -> ColumnElement[bool]:
    """Rows that may have changed at this time or later: first fetched then, or with other contents than before."""
    return or_(pages.c.first_fetched_at >= moment, pages.c.changed_at >= moment)


def marked(
    rows: Iterable[Row], moment: datetime, history: Callable[[str], Sequence[StoredFetch]]
) -> Iterator[Row]:
    """Yields the rows that have changed since a time, with `COLUMN`; see `change_of`."""
    for row in rows:
        if (change := change_of(row, moment, history)) is not None:
            yield {**row, COLUMN: change}


def change_of(row: Row, moment: datetime, history: Callable[[str], Sequence[StoredFetch]]) -> Change | None:
    """Returns how a page differs from the last answer before `moment`; None if it does not, or if that is not known.

    A page is gone if it answers 404 or 410, or with a soft 404. A refusal, a server error and a failed fetch do not
    show whether a page exists. `history` returns the fetches of a URL, the oldest first. If it does not reach back to
    `moment`, a page that existed then has changed.
    """
    if state(row["status"]) in UNREACHABLE:
        return None
    is_gone = state(row["status"]) == "missing" or bool(row["soft_404"])
    if row["first_fetched_at"] >= moment:
        return None if is_gone else "new"
    before = None
    for fetch in history(row["url"]):
        if fetch.fetched_at < moment and fetch.status != UNCHANGED and state(fetch.status) not in UNREACHABLE:
            before = fetch
    was_gone = before is not None and state(before.status) == "missing"
    if is_gone:
        return None if was_gone else "gone"
    if was_gone:
        return "new"
    return None if before is not None and before.digest == row["digest"] else "changed"
