"""What is told about a URL, from its state, its row and the verdicts on it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.cases import cases
from webcrawl.frontier import HostLimits
from webcrawl.frontier.records import HostStatus
from webcrawl.frontier.url_state import URLState
from webcrawl.stores.metadata import StoredFetch
from webcrawl.web.url_facts import MOST_VISITS, conclude, verdicts, visits

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def report(**changes: Any) -> dict[str, Any]:
    passed = {"filters": {"ScopeFilter": "passes it"}, "robots": "allowed", "address": "allowed: 192.0.2.1"}
    return {**passed, "seen": "no", "level": 3, **changes}


def host(parked: str | None = None) -> HostStatus:
    return HostStatus("https://a.test", 1, False, parked, 0, 0, HostLimits(), None, 0.0, 0)


def row(**changes: Any) -> dict[str, Any]:
    plain = {"tried_at": NOW, "fetched_at": NOW, "error": None, "status": 200, "duplicate_of": None}
    return {**plain, "duplicate_kind": None, **changes}


OUTSIDE = report(filters={"ScopeFilter": "drops it"})
FORBIDDEN = report(robots='disallowed; decided by "Disallow: /"', seen="yes: queued before")
ERROR = "IgnoreRequest: robots.txt disallows it"


@cases(
    ("facts", "state", "stored", "parked", "kind", "told"),
    [
        (report(), URLState(None), None, None, "warn", "The crawl has not met it"),
        (OUTSIDE, URLState(None), None, None, "bad", "ScopeFilter: drops it"),
        (FORBIDDEN, URLState(None), None, None, "bad", 'decided by "Disallow: /"'),
        (FORBIDDEN, URLState(None), row(error=ERROR, status=None), None, "bad", "It is not fetched"),
        (report(), URLState(None), row(error="timeout", status=None), None, "bad", "timeout, at 2026-01-02"),
        (report(), URLState(None), row(), None, "good", "It answered 200 at 2026-01-02 03:04:05 UTC"),
        (report(), URLState(None), row(status=404), None, "bad", "It answered 404"),
        (
            report(),
            URLState(None),
            row(duplicate_of="x", duplicate_kind="near"),
            None,
            "warn",
            "A near-duplicate",
        ),
        (report(), URLState(None, complete=False), None, None, "warn", "long queue"),
        (report(seen="yes: so"), URLState(None), None, None, "warn", "nothing is stored about it"),
        (report(seen="unknown: so"), URLState(None), None, None, "warn", "Nothing is known of it here"),
        (report(), URLState("queued", level=2), None, None, "good", "It has level 2"),
        (report(), URLState("queued", level=2), None, "blocked", "warn", "blocked its host"),
        (report(), URLState("queued", level=2), None, "budget", "warn", "limit of pages or bytes"),
        (FORBIDDEN, URLState("queued", level=2), None, None, "warn", "When its turn comes it is not fetched"),
        (report(), URLState("leased", worker="w1", attempts=2), row(), None, "good", "w1. 2 attempts failed"),
        (report(), URLState("waiting", attempts=1), None, None, "warn", "1 attempt failed before"),
        (report(), URLState("scheduled", level=1), row(), None, "good", "It is fetched at a date"),
        (report(), URLState("dead", reason="status 500"), None, None, "bad", "status 500"),
        (report(), URLState("dropped"), None, None, "bad", "An operator has dropped it"),
    ],
)
def test_what_happens_to_a_url_is_told_with_the_reason(
    facts: dict[str, Any], state: URLState, stored: Any, parked: str | None, kind: str, told: str
) -> None:
    found = conclude(facts, state, stored, host(parked), False)
    assert (found.kind, told in f"{found.short}: {found.why}") == (kind, True), found


def test_a_paused_crawl_is_told() -> None:
    assert conclude(report(), URLState("queued"), None, host(), True).why.startswith("The crawl is paused")


def test_verdicts_come_in_the_order_in_which_a_link_meets_them() -> None:
    facts = report(DUST="fetches x instead", LINK_RULES="does not follow it: so", robots="unknown: so")
    found = [(one.name, one.kind) for one in verdicts(facts)]
    assert found == [
        ("DUST", "warn"),
        ("ScopeFilter", "good"),
        ("LINK_RULES", "bad"),
        ("robots.txt", "warn"),
        ("address", "good"),
        ("seen before", ""),
    ]


def fetch(
    hours: float, *, status: int | None = 200, changed: bool = False, error: str | None = None
) -> StoredFetch:
    moment = NOW + timedelta(hours=hours)
    return StoredFetch(moment, status, changed, None, None, None, error, None, None, None)


def test_visits_are_drawn_where_they_were_in_time() -> None:
    fetches = [
        fetch(40, changed=True),
        fetch(30, status=404, changed=True),
        fetch(10, status=None, error="x"),
        fetch(0),
    ]
    drawn = [(visit.at, visit.kind) for visit in visits(fetches)]
    assert drawn == [(100, "changed"), (75, "failed"), (25, "failed"), (0, "same")]
    assert visits(fetches[:2]) == []
    assert {visit.at for visit in visits([fetch(0)] * 3)} == {0}
    assert len(visits([fetch(-hour) for hour in range(300)])) == MOST_VISITS
