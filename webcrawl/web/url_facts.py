"""Explains why a URL is or is not fetched, from its state, its row and the verdicts of rules; draws its visits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from webcrawl.documents.values import counted, without_class
from webcrawl.frontier.records import HostStatus
from webcrawl.frontier.url_state import URLState
from webcrawl.stores.locations import Row
from webcrawl.stores.metadata import StoredFetch

_HELD = {
    "blocked": "An operator has blocked its host, so it waits until that is unblocked.",
    "budget": "Its host has reached its limit of pages or bytes, so it waits until that is raised.",
}
_DROPS = "drops it"


class Verdict(NamedTuple):
    """The verdict of a rule on a URL. `kind`: good, warn, bad, or empty if the rule decides nothing."""

    name: str
    text: str
    kind: str = ""


class Conclusion(NamedTuple):
    """The conclusion in a few words, and the reason in one or two sentences."""

    kind: str
    short: str
    why: str


def verdicts(report: Mapping[str, Any]) -> Iterator[Verdict]:
    """Yields the verdicts of the rules, in the order in which they apply to a link."""
    if "DUST" in report:
        yield Verdict("DUST", report["DUST"], "warn")
    for name, text in report["filters"].items():
        yield Verdict(name, text, "good" if text == "passes it" else "bad" if text == _DROPS else "warn")
    for name in ("OFFSITE_HOPS", "LINK_RULES", "POLITENESS_RULES"):
        if name in report:
            yield Verdict(name, report[name], "bad" if report[name].startswith("does not") else "")
    for name in ("robots", "address"):
        text = report[name]
        kind = "good" if text.startswith("allowed") else "warn" if text.startswith("unknown") else "bad"
        yield Verdict("robots.txt" if name == "robots" else name, text, kind)
    yield Verdict("seen before", report["seen"])


def conclude(
    report: Mapping[str, Any], state: URLState, row: Row | None, host: HostStatus, paused: bool
) -> Conclusion:
    """Returns what happens with the URL, and why."""
    refusals = [f"{verdict.name}: {verdict.text}" for verdict in verdicts(report) if verdict.kind == "bad"]
    if state.state is not None:
        return _in_engine(state, host, paused, refusals)
    if row is not None:
        return _fetched(row, refusals)
    if not state.complete:
        why = "Its host has a long queue, of which the first 10,000 URLs were read. It may wait behind them."
        return Conclusion("warn", "Not found in the part that was read", why)
    if report["seen"].startswith("yes"):
        why = (
            "; ".join(refusals)
            or "It brought no page that was stored: METADATA may be off, or it was refused."
        )
        return Conclusion("bad" if refusals else "warn", "It was queued, and nothing is stored about it", why)
    if refusals:
        return Conclusion("bad", "It is not fetched", "; ".join(refusals))
    if report["seen"].startswith("unknown"):
        return Conclusion("warn", "Nothing is known of it here", report["seen"])
    why = (
        f"No page with a link to it was fetched yet. A link to it would be queued at level {report['level']}."
    )
    return Conclusion("warn", "The crawl has not met it", why)


def _in_engine(state: URLState, host: HostStatus, paused: bool, refusals: list[str]) -> Conclusion:
    later = " When its turn comes it is not fetched: " + "; ".join(refusals) + "." if refusals else ""
    failed = f" {counted(state.attempts, 'attempt')} failed before." if state.attempts else ""
    if state.state == "leased":
        return Conclusion(
            "good", "A worker fetches it, or is about to", f"The worker is {state.worker}.{failed}"
        )
    if state.state == "queued":
        stop = _HELD.get(host.parked or "") or ("The crawl is paused." if paused else "")
        wait = f" The host may be asked in {host.waits:,.1f} s." if host.waits else ""
        why = stop or f"It has level {state.level}; lower levels come first.{wait}"
        return Conclusion(
            "warn" if stop or refusals else "good", "It waits in the queue", why + failed + later
        )
    if state.state == "waiting":
        return Conclusion("warn", "It failed, and is tried again", f"{failed.strip()}{later}")
    if state.state == "scheduled":
        return Conclusion(
            "good", "It is fetched at a date", f"Then it is queued at level {state.level}.{later}"
        )
    if state.state == "dead":
        return Conclusion("bad", "It was given up", f"{state.reason}.{failed}")
    return Conclusion("bad", "An operator has dropped it", "A link to it does not queue it again.")


def _fetched(row: Row, refusals: list[str]) -> Conclusion:
    tried: datetime = row["tried_at"] or row["fetched_at"]
    moment = f"{tried:%Y-%m-%d %H:%M:%S} UTC"
    if row["error"] and refusals:
        return Conclusion(
            "bad", "It is not fetched", f"{'; '.join(refusals)}. A worker last had it at {moment}."
        )
    if row["error"]:
        return Conclusion("bad", "The last attempt failed", f"{without_class(row['error'])}, at {moment}.")
    kind = "good" if row["status"] is not None and row["status"] < 400 else "bad"
    if row["duplicate_of"]:
        copy = "An exact copy" if row["duplicate_kind"] == "exact" else "A near-duplicate"
        return Conclusion("warn", f"{copy} of another page", f"It answered {row['status']} at {moment}.")
    return Conclusion(kind, "It was fetched", f"It answered {row['status']} at {moment}.")


MOST_VISITS = 200
"""The most fetches in a chart: the latest."""


class VisitMark(NamedTuple):
    """A fetch in a chart. `at`: from 0, the first in the chart, to 100; `kind`: changed, same or failed."""

    at: float
    kind: str
    moment: datetime


def visits(fetches: Sequence[StoredFetch]) -> list[VisitMark]:
    """Returns marks of the latest fetches, which come latest first; none of fewer than three, which need no chart."""
    latest = fetches[:MOST_VISITS]
    if len(latest) < 3:
        return []
    end, start = latest[0].fetched_at, latest[-1].fetched_at
    span = (end - start).total_seconds() or 1.0
    return [
        VisitMark(
            round(100 * (fetch.fetched_at - start).total_seconds() / span, 2), _kind(fetch), fetch.fetched_at
        )
        for fetch in latest
    ]


def _kind(fetch: StoredFetch) -> str:
    if fetch.error or fetch.status is None or fetch.status >= 400:
        return "failed"
    return "changed" if fetch.changed else "same"
