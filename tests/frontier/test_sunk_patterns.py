"""What has sunk is summed up over the hosts of a crawl, from a bounded number of records."""

from __future__ import annotations

import pytest

from tests.frontier.pages import all_done, page
from webcrawl.frontier import Frontier, LeaseReport, sunk_patterns
from webcrawl.frontier.sunk_patterns import SunkPattern
from webcrawl.policies.pattern_records import HostPatterns

HOSTS = 30


async def sink_days(frontier: Frontier, hosts: int) -> None:
    """Sinks /day/# of so many hosts: after 20 copies on the first host, 21 on the next, and so on."""
    await frontier.add([page(f"http://h{n}.test/") for n in range(hosts)])
    for lease in await frontier.lease(hosts, 1):
        number = int(lease.host[8:].partition(".")[0])
        records = HostPatterns()
        for day in range(20 + number):
            records.add(f"/day/{day}", "copy" if day else "new")
            records.add(f"/article/{day}", "new")
        report = LeaseReport(lease, all_done(lease), pause=0, patterns=records.pack())
        await frontier.settle_all([report], lambda *_: None)


async def test_the_patterns_with_most_useless_pages_come_first(frontier: Frontier) -> None:
    assert await sunk_patterns.sunk_patterns(frontier) == sunk_patterns.SunkPatterns()
    await sink_days(frontier, HOSTS)
    found = await sunk_patterns.sunk_patterns(frontier, 3)
    assert (found.hosts, found.hosts_read, found.patterns) == (HOSTS, HOSTS, HOSTS)
    assert (found.fetched, found.new) == (sum(range(20, 20 + HOSTS)), HOSTS)
    assert [one.host for one in found.worst] == [f"http://h{HOSTS - n}.test" for n in (1, 2, 3)]
    why = "48 of 49 pages were copies"
    assert found.worst[0] == SunkPattern("http://h29.test", "/day/#", 49, 1, 8, why)


async def test_only_some_hosts_are_read(frontier: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sunk_patterns, "_MOST_READ", 7)
    await sink_days(frontier, HOSTS)
    found = await sunk_patterns.sunk_patterns(frontier)
    assert (found.hosts, found.hosts_read, found.patterns, len(found.worst)) == (HOSTS, 7, 7, 7)
