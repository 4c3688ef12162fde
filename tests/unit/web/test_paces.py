"""Which hosts are shown, how fast they are asked, and why."""

from __future__ import annotations

from dataclasses import replace

from tests.cases import cases
from webcrawl.frontier.host_table import HostRow
from webcrawl.frontier.workers import Vitals
from webcrawl.hosts.costs import Cost, Load
from webcrawl.hosts.politeness import Pace
from webcrawl.web.pages.crawl import busiest
from webcrawl.web.pages.hosts import kept, paces, reported_paces

ROW = HostRow("http://a.test", 1, False, None, 0, 0, 0.0, 0, None, 2.0, False, Cost())


@cases(
    ("row", "pace"),
    [
        (ROW, Pace(2.0, "", 0.0, "", 0)),
        (replace(ROW, delay=5.0, waits=1.0), Pace(5.0, "operator", 1.0, "gap", 0)),
        (replace(ROW, delay=1.0, waits=9.0, failures=2), Pace(2.0, "", 9.0, "back-off", 2)),
        (replace(ROW, waits=9.0, failures=2, asked=True), Pace(2.0, "", 9.0, "Retry-After", 2)),
        (replace(ROW, asked=True), Pace(2.0, "", 0.0, "", 0)),
    ],
)
def test_the_engine_keeps_why_a_host_waits(row: HostRow, pace: Pace) -> None:
    assert kept(row) == pace


def test_a_worker_knows_better_while_it_has_the_host() -> None:
    pace = Pace(3.0, "Crawl-delay", 1.5, "gap", 0)
    known = reported_paces([None, Vitals(0.0, 0, 1, 0, 0, 0, 0, 0.0, paces={ROW.host: pace})])
    assert paces([replace(ROW, leased=True)], known) == {ROW.host: pace}
    assert paces([ROW], known) == {ROW.host: kept(ROW)}, "it was released meanwhile"


def test_busy_hosts_come_before_costly_ones() -> None:
    loads = {"http://a.test": Load(1), "a.test": Load(1), "http://b.test": Load(1, 4)}
    costs = {"http://c.test": Cost(9.0), "http://a.test": Cost(2.0)}
    assert busiest(loads, costs) == [
        ("http://b.test", Load(1, 4), None),
        ("http://a.test", Load(1), Cost(2.0)),
        ("http://c.test", Load(), Cost(9.0)),
    ]
