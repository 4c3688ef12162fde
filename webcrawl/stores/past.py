"""What a URL's row says of its own fetch, and what of that goes to the history when another try comes after it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from webcrawl.stores.columns import fetches, pages

UNCHANGED = 304

_OF_A_FETCH = tuple(column.name for column in fetches.columns if column.name not in ("url", "changed"))

PAST_COLUMNS = tuple(
    pages.c[name] for name in (*_OF_A_FETCH, "fetches", "tried_at", "changed_at", "first_fetched_at")
)
"""What has to be read of a row to know how it goes on."""


def state(status: int | None) -> str:
    """What a try came to, in a word: fetched, unchanged, redirected, missing, refused (4xx), broken (5xx) or failed."""
    if status is None:
        return "failed"
    if status == UNCHANGED:
        return "unchanged"
    if status in (404, 410):
        return "missing"
    return {2: "fetched", 3: "redirected", 5: "broken"}.get(status // 100, "refused")


def follow(
    row: Mapping[str, Any], before: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What is known of a URL (`PAST_COLUMNS`) once `row` has come after `before`, and what goes to the history.

    That is the fetch that loses its place, or the try itself when it brought nothing; None when it is the first, or the
    same one said again.
    """
    moment: datetime = row["fetched_at"]
    tried_at = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    tried = {name: row.get(name) for name in _OF_A_FETCH} | {"fetched_at": tried_at}
    if before is None:
        times = {"tried_at": tried_at, "changed_at": None, "first_fetched_at": tried_at}
        return {**tried, **times, "fetches": 1}, None
    answered = before["status"] is not None
    if answered and row.get("status") in (None, UNCHANGED):
        after = {**before, "error": tried["error"], "tried_at": tried_at}
        past = {**tried, "changed": False}
    else:
        changed_at = before["changed_at"]
        if answered and before["digest"] != tried["digest"]:
            changed_at = tried_at
        times = {"changed_at": changed_at, "first_fetched_at": before["first_fetched_at"]}
        after = {**tried, **times, "tried_at": tried_at}
        past = described(before)
    said_again = tried_at == (before["tried_at"] or before["fetched_at"])
    after["fetches"] = before["fetches"] + (not said_again)
    return after, None if said_again else past


def described(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fetch that a row (`PAST_COLUMNS`) describes, as the history keeps it."""
    # the error is that of the latest try
    later = row["tried_at"] not in (None, row["fetched_at"])
    fetch = {name: row[name] for name in _OF_A_FETCH}
    return {
        **fetch,
        "error": None if later else row["error"],
        "changed": row["changed_at"] == row["fetched_at"],
    }
