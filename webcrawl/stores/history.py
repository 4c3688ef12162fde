"""What a URL's row says of its own fetch, and what of that goes to the history when another try comes after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from webcrawl.stores.columns import fetches, in_utc, pages

UNCHANGED = 304

_OF_A_FETCH = tuple(column.name for column in fetches.columns if column.name not in ("url", "changed"))

PAST_COLUMNS = tuple(pages.c[name] for name in (*_OF_A_FETCH, "fetches", "tried_at", "changed_at"))
"""What has to be read of a row to know how it goes on."""


class Next(NamedTuple):
    """How the row of a URL goes on with a try.

    `kept` is what the store itself keeps in the row: all of it, or of a known URL what changes. `past` is the fetch
    that goes to the history (table `fetches`, and other columns that do not count), or None. `brought_nothing`: the row
    keeps what an earlier answer brought.
    """

    kept: dict[str, Any]
    past: dict[str, Any] | None
    brought_nothing: bool


def state(status: int | None) -> str:
    """What a try came to, in a word: fetched, unchanged, redirected, missing, refused (4xx), broken (5xx) or failed."""
    if status is None:
        return "failed"
    if status == UNCHANGED:
        return "unchanged"
    if status in (404, 410):
        return "missing"
    return {2: "fetched", 3: "redirected", 5: "broken"}.get(status // 100, "refused")


def follow(row: Mapping[str, Any], before: Mapping[str, Any] | None) -> Next:
    """What a row of a page means for a URL of which `before` (`PAST_COLUMNS`) is known, or nothing.

    To the history goes the fetch that loses its place, or the try itself when it brought nothing; neither when it is
    the first one, or the same one said again.
    """
    tried_at, status = in_utc(row["fetched_at"]), row.get("status")
    kept = {"tried_at": tried_at, "state": state(status)}
    if before is None:
        kept |= {"first_fetched_at": tried_at, "changed_at": None, "fetches": 1}
        return Next(kept, None, False)
    said_again = tried_at == (before["tried_at"] or before["fetched_at"])
    kept["fetches"] = before["fetches"] + (not said_again)
    answered = before["status"] is not None
    brought_nothing = answered and status in (None, UNCHANGED)
    past = None
    if not said_again:
        past = {**row, "fetched_at": tried_at, "changed": False} if brought_nothing else described(before)
    changed = answered and not brought_nothing and before["digest"] != row.get("digest")
    kept["changed_at"] = tried_at if changed else before["changed_at"]
    return Next(kept, past, brought_nothing)


def described(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fetch that a row (`PAST_COLUMNS`) describes, as the history keeps it."""
    # the error is that of the latest try
    later = row["tried_at"] not in (None, row["fetched_at"])
    return {
        **row,
        "error": None if later else row["error"],
        "changed": row["changed_at"] == row["fetched_at"],
    }
