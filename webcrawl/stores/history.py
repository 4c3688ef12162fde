"""Decides how a new attempt changes the row of a URL, and which fetch moves to the history."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from webcrawl.errors import InvalidURL
from webcrawl.policies.change_signals import (
    CACHE_CONTROL,
    ETAG,
    LAST_MODIFIED,
    PAGE_DATE,
    Announcements,
    PageSignal,
    SignalCounts,
    http_time,
    page_signals,
)
from webcrawl.policies.revisit_dates import KnownPage, RevisitDates, StoredVisit
from webcrawl.policies.traffic import FRESHNESS_GET
from webcrawl.stores.columns import fetches, in_utc, pages
from webcrawl.urls.canonical import split

UNCHANGED = 304
_LOST = ("missing", "redirected")
FAILED = ("refused", "broken", "failed")
NOT_ALIVE = _LOST + FAILED
"""The states of pages that the latest attempt did not find."""

_OF_A_FETCH = tuple(column.name for column in fetches.columns if column.name not in ("url", "changed"))

_PLANNED = (
    *("change_rate", "change_evidence", "link_rate", "next_due", "recrawl_request"),
    *("is_date_set", "signals"),
)
_KNOWN = (
    *(
        "fetches",
        "state",
        "tried_at",
        "changed_at",
        "changes",
        "text_digest",
        "simhash",
        "change_distance",
        "importance",
        "crawl",
        "queued_at",
        "new_links",
        "etag",
    ),
    *_PLANNED,
)

PAST_COLUMNS = tuple(pages.c[name] for name in (*_OF_A_FETCH, *_KNOWN))
"""The columns of a stored row that `follow` reads."""


class Next(NamedTuple):
    """How an attempt changes the row of a URL.

    `kept` has the columns that the store computes. `past` is the fetch that moves to table `fetches` (with columns that
    the table ignores), or None. If `brought_nothing`, the row keeps the contents of an earlier response. `learned`:
    what the counts of the signals of its host grow by.
    """

    kept: dict[str, Any]
    past: dict[str, Any] | None
    brought_nothing: bool
    learned: Mapping[str, SignalCounts] = MappingProxyType({})


def state(status: int | None) -> str:
    """Returns an outcome: fetched, unchanged, redirected, missing, refused (4xx), broken (5xx) or failed."""
    if status is None:
        return "failed"
    if status == UNCHANGED:
        return "unchanged"
    if status in (404, 410):
        return "missing"
    return {2: "fetched", 3: "redirected", 5: "broken"}.get(status // 100, "refused")


def follow(
    row: Mapping[str, Any], before: Mapping[str, Any] | None, dates: RevisitDates | None = None
) -> Next:
    """Returns how the new row of a page changes the stored row of its URL, `before` (`PAST_COLUMNS`), or None.

    `before` may have a `weight`, and `host_signals`, the counts of its host's signals.

    `dates` decide when the page is due again; without them, a known page keeps its date.

    The history gets the replaced fetch, or the new attempt if it brought no contents. The first fetch of a URL, and a
    fetch that is stored again, add nothing to the history.
    """
    tried_at, status = in_utc(row["fetched_at"]), row.get("status")
    kept = {"tried_at": tried_at, "state": state(status), "queued_at": row.get("queued_at")}
    if before is None:
        kept |= {"first_fetched_at": tried_at, "fetches": 1}
        kept |= {"changed_at": None, "changes": 0, "change_distance": None}
        plan, _ = _plan(row, None, "changed", dates)
        return Next(kept | plan, None, False)
    if before["crawl"] == row.get("crawl"):
        kept["queued_at"] = before["queued_at"] or kept["queued_at"]
    is_repeated = tried_at == (before["tried_at"] or before["fetched_at"])
    kept["fetches"] = before["fetches"] + (not is_repeated)
    answered = before["status"] is not None
    brought_nothing = answered and status in (None, UNCHANGED)
    past = None
    if not is_repeated:
        past = {**row, "fetched_at": tried_at, "changed": False} if brought_nothing else described(before)
    changed = answered and not brought_nothing and has_changed(before, row)
    kept["changed_at"] = tried_at if changed else before["changed_at"]
    kept["changes"] = (before["changes"] or 0) + (changed and not is_repeated)
    kept["change_distance"] = _distance(before, row) if changed else before["change_distance"]
    outcome = "changed" if changed else "unchanged"
    plan, learned = _plan(row, before, outcome, None if is_repeated else dates)
    return Next(kept | plan, past, brought_nothing, learned)


def _distance(before: Mapping[str, Any], row: Mapping[str, Any]) -> int | None:
    """Returns how many bits of the SimHashes of two texts differ, None if one has none."""
    if before["simhash"] is None or row.get("simhash") is None:
        return None
    return int(before["simhash"] ^ row["simhash"]).bit_count()


def is_alive(row_state: str | None, *, is_soft_404: bool) -> bool:
    """Whether the latest attempt at a page found the page."""
    return not (is_soft_404 or row_state in NOT_ALIVE)


def _plan(
    row: Mapping[str, Any], before: Mapping[str, Any] | None, outcome: str, dates: RevisitDates | None
) -> tuple[dict[str, Any], Mapping[str, SignalCounts]]:
    """Returns the columns by which a page is fetched again, those of `before` without `dates`, and what it taught."""
    earlier = dict.fromkeys(_PLANNED) if before is None else before
    if dates is None:
        return {name: earlier[name] for name in _PLANNED}, {}
    current = state(row.get("status"))
    if current in _LOST or row.get("soft_404"):
        outcome = "gone"
    elif current in FAILED:
        outcome = "failed"
    try:
        host, path = split(row["url"])
    except InvalidURL:  # a local file
        return dict.fromkeys(_PLANNED), {}
    importance = row.get("importance") if before is None else row.get("importance") or before["importance"]
    weight = dates.weights.of_row(earlier.get("weight"), row.get("details"))
    signals = page_signals(earlier["signals"], earlier.get("host_signals"))
    page = KnownPage(host, path, importance, earlier["change_evidence"], weight, signals)
    new_links = 0 if before is None else before["new_links"] or 0
    visit = StoredVisit(page, in_utc(row["fetched_at"]), _observed_at(before), outcome, new_links)
    promise = None
    if outcome in ("changed", "unchanged"):
        promise = _promise(row, earlier, dates.bounds.shortest)
        visit = visit._replace(shown=_shown(row, before), promise=promise)
    date = dates.date(visit)
    if outcome != "failed":
        signals = {
            kind: signal._replace(announced=signal.announced.visited())
            for kind, signal in signals.items()
            if kind != CACHE_CONTROL
        }
    if promise is not None:
        signals[CACHE_CONTROL] = promise
    columns = {
        "change_rate": date.rate,
        "change_evidence": date.evidence,
        "link_rate": date.link_rate,
        "next_due": date.due if row.get("is_repeatable", True) else None,
        "recrawl_request": row.get("recrawl_request"),
        "is_date_set": None,
        "signals": {kind: [*signal.announced] for kind, signal in signals.items()} or None,
    }
    return columns, date.learned


def describes_changes(row: Mapping[str, Any]) -> bool:
    """Whether a response tells something of changes itself: by its `ETag` or its dates."""
    return bool(row.get("etag") or row.get("last_modified") or (row.get("details") or {}).get("modified"))


def _shown(row: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, PageSignal]:
    """Returns kind -> what a response itself tells of a change since the visit before."""
    observed_at = _observed_at(before)
    if before is None or observed_at is None:
        return {}
    times = {
        LAST_MODIFIED: http_time(row.get("last_modified")),
        PAGE_DATE: _iso_time((row.get("details") or {}).get("modified")),
    }
    shown, none = {}, Announcements()
    for kind, changed in times.items():
        if changed is not None:
            is_later = changed > observed_at.timestamp()
            shown[kind] = _signal(kind, before, Announcements(1, changed, changed) if is_later else none)
    if row.get("etag") and before["etag"]:
        differs = row["etag"] != before["etag"]
        shown[ETAG] = _signal(ETAG, before, none._replace(times=int(differs)))
    return shown


def _promise(row: Mapping[str, Any], before: Mapping[str, Any], shortest: float) -> PageSignal | None:
    """Returns the lifetime that a response announces; None if it is shorter than the time between two visits."""
    lifetime = row.get("lifetime") or 0.0
    return _signal(CACHE_CONTROL, before, Announcements(lifetime=lifetime)) if lifetime > shortest else None


def _signal(kind: str, before: Mapping[str, Any], announced: Announcements) -> PageSignal:
    return PageSignal(SignalCounts(*(before.get("host_signals") or {}).get(kind, ())), announced)


def _iso_time(text: str | None) -> float | None:
    try:
        return in_utc(datetime.fromisoformat(text)).timestamp() if text else None
    except ValueError:
        return None


def new_link_source(row: Mapping[str, Any], before: Mapping[str, Any] | None) -> str | None:
    """Returns the page that gets the credit for a page that it named first, at a repeated visit; None for no credit."""
    is_new_link = before is None and row.get("fetch_class") == FRESHNESS_GET
    is_sound = state(row.get("status")) == "fetched" and not (row.get("duplicate_of") or row.get("soft_404"))
    return row.get("referrer") if is_new_link and is_sound else None


def first_plan(row: Mapping[str, Any], dates: RevisitDates) -> dict[str, Any]:
    """Returns the columns by which a stored page is fetched again that was fetched without a plan."""
    status = None if row["state"] == "failed" else row["status"]
    latest = {**row, "fetched_at": row["tried_at"] or row["fetched_at"], "status": status}
    return _plan(latest, None, "unchanged", dates)[0]


def _observed_at(row: Mapping[str, Any] | None) -> datetime | None:
    """Returns when the content of a page was last seen; None for an unknown page."""
    if row is None:
        return None
    return in_utc(row["fetched_at"] if row["state"] in FAILED else row["tried_at"] or row["fetched_at"])


def has_changed(before: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Returns whether two responses differ: in their main texts if both are known, otherwise in their payloads."""
    earlier, later = before["text_digest"], row.get("text_digest")
    if earlier is not None and later is not None:
        return bool(earlier != later)
    return bool(before["digest"] != row.get("digest"))


def described(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fetch that a row (`PAST_COLUMNS`) describes, as a row of the history."""
    # the error belongs to the latest attempt
    later = row["tried_at"] not in (None, row["fetched_at"])
    return {
        **row,
        "error": None if later else row["error"],
        "changed": row["changed_at"] == row["fetched_at"],
    }
