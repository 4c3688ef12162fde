"""Hosts are read in windows, each in bounded work, and a host and a URL are looked up one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis

from tests.frontier.pages import page
from tests.frontier.spilling import HOST as LONG, numbered, serve, spilling
from webcrawl.errors import StoreError
from webcrawl.frontier import Candidate, Crawl, Frontier, HostLimits, LeaseReport, Settlement
from webcrawl.frontier.host_answers import stored_robots
from webcrawl.frontier.host_report import host_report, switch_rules
from webcrawl.frontier.host_table import LISTS, HostTable, HostWindow
from webcrawl.frontier.url_state import url_state
from webcrawl.hosts.costs import Cost
from webcrawl.hosts.robots import RobotsPolicy

HOST = "https://www.h0.test"


def table_of(frontier: Frontier) -> HostTable:
    return HostTable(Crawl(frontier.engine, frontier.keys, frontier.worker))


async def windows(table: HostTable, **options: object) -> list[HostWindow]:
    """All windows of a list."""
    found, after = [], ""
    while not found or after:
        found.append(await table.window(after=after, **options))  # type: ignore[arg-type]
        after = found[-1].after
    return found


async def test_windows_show_each_host_once_with_its_queue(frontier: Frontier) -> None:
    hosts = [f"{scheme}h{number}.test" for number in range(900) for scheme in ("http://", "https://www.")]
    await frontier.add([Candidate(host, f"/{n}", None) for host in hosts for n in range(2)])
    found = await windows(table_of(frontier), most=100)
    assert len(found) >= 4, "a window ends where a piece of a shard does"
    assert all(len(window.rows) <= 600 for window in found), "a window has a few pieces of a hash at most"
    rows = [row for window in found for row in window.rows]
    assert sorted(row.host for row in rows) == sorted(hosts)
    assert {(row.queued, row.leased, row.pages) for row in rows} == {(2, False, 0)}
    some = await windows(table_of(frontier), text="WWW.h77.", most=100)
    assert [row.host for window in some for row in window.rows] == ["https://www.h77.test"]
    assert sum(window.read for window in some) == 1800


async def test_a_search_stops_after_20_000_hosts_and_can_be_continued(
    frontier: Frontier, valkey: Redis
) -> None:
    key = f"{frontier.keys.queue(0)[0]}spent"
    valkey.hset(key, mapping={f"http://h{number}.test": "1 10" for number in range(30_000)})
    first = await table_of(frontier).window("fetched", text="nowhere")
    assert (first.rows, 20_000 <= first.read < 22_000, bool(first.after)) == ([], True, True)
    second = await table_of(frontier).window("fetched", first.after, "nowhere")
    assert (first.read + second.read, second.after) == (30_000, "")


async def test_lists_show_hosts_by_what_happened_to_them(frontier: Frontier) -> None:
    await frontier.add([page(f"http://h{n}.test/{m}") for n in range(4) for m in range(3)])
    paused: list[str] = []
    for lease in await frontier.lease(2, 1):
        retry = Settlement(lease.urls[0].index, "retry", delay=1000)
        lease.failures = 4
        report = LeaseReport(lease, [retry], pause=100.0 + len(paused), asked=not paused)
        await frontier.settle_all([report])
        paused.append(lease.host)
    (kept,) = await frontier.lease(1, 1)
    done = Settlement(kept.urls[0].index, pages=1, bytes=500)
    assert await frontier.acknowledge(kept, [done]) == []
    (blocked,) = {f"http://h{n}.test" for n in range(4)} - {kept.host, *await hosts_in(frontier, "retrying")}
    await frontier.block(blocked)
    await frontier.limit(blocked, HostLimits(pages=7))
    await frontier.set_delay(blocked, 2.5)
    assert await hosts_in(frontier, "leased") == await hosts_in(frontier, "fetched") == {kept.host}
    assert await hosts_in(frontier, "held") == await hosts_in(frontier, "limited") == {blocked}
    assert len(await hosts_in(frontier, "queued")) == 4
    assert len(await hosts_in(frontier, "retrying")) == 2
    rows = {row.host: row for row in (await table_of(frontier).window("queued")).rows}
    assert (rows[kept.host].leased, rows[kept.host].pages, rows[kept.host].bytes) == (True, 1, 500)
    assert (rows[blocked].held, rows[blocked].delay, rows[blocked].queued) == ("blocked", 2.5, 3)
    waiting = [row for row in rows.values() if row.failures]
    assert len(waiting) == 2 and all(90 < row.waits <= 101 for row in waiting)
    window = await table_of(frontier).window("waiting")
    assert [(row.host, row.asked) for row in window.rows] == [(paused[1], False), (paused[0], True)]
    assert (await frontier.host(paused[0])).asked and window.after == ""
    await frontier.block_until(paused[0], 300.0)
    window = await table_of(frontier).window("waiting")
    assert [(row.host, row.asked) for row in window.rows] == [(paused[0], False), (paused[1], False)]


async def test_errors_count_once_also_when_a_report_is_repeated(frontier: Frontier) -> None:
    await frontier.add([page(f"http://{name}.test/{n}") for name in "ab" for n in range(4)])
    for lease in await frontier.lease(2, 4):
        bad = lease.host == "http://a.test"
        done = Settlement(lease.urls[0].index, pages=1, links=["http://a.test/9"], failed=bad)
        retry = Settlement(lease.urls[1].index, "retry", delay=1000, failed=bad)
        for report in (LeaseReport(lease, [done], more=0), LeaseReport(lease, [done, retry], more=0)):
            await frontier.settle_all([report])
    (row,) = (await table_of(frontier).window("failing")).rows
    assert (row.host, row.errors, row.pages) == ("http://a.test", 2, 1)
    (other,) = await table_of(frontier).rows(["http://b.test"])
    assert (other.errors, other.pages) == (0, 1)


async def hosts_in(frontier: Frontier, name: str) -> set[str]:
    return {row.host for window in await windows(table_of(frontier), name=name) for row in window.rows}


async def test_the_costliest_hosts_come_in_order(frontier: Frontier) -> None:
    table = table_of(frontier)
    costs = {f"http://h{number}.test": Cost(seconds=number + 1.0) for number in range(30)}
    await table.crawl.costs.add(costs | {"h.test": Cost(seconds=1e4), "*": Cost(seconds=1e5)})
    found = await windows(table, name="costliest", most=10)
    rows = [row for window in found for row in window.rows]
    assert [row.host for row in rows] == [f"http://h{number}.test" for number in reversed(range(30))]
    assert [round(row.cost.seconds) for row in rows] == list(range(30, 0, -1))


@pytest.mark.parametrize("after", ["1", "a.b", "9999.0", "0.-1", "0.1.2", "²." + "1", "0." + "9" * 30])
async def test_a_wrong_place_or_list_is_refused(frontier: Frontier, after: str) -> None:
    table = table_of(frontier)
    with pytest.raises(StoreError, match="is no place in a list of hosts"):
        await table.window("queued", after)
    with pytest.raises(StoreError, match=f"choose one of {', '.join(LISTS)}"):
        await table.window("all")


async def test_the_report_of_a_host_has_its_robots_txt_and_rules(frontier: Frontier, valkey: Redis) -> None:
    crawl = Crawl(frontier.engine, frontier.keys, frontier.worker)
    report = await host_report(frontier, crawl, HOST)
    assert (report.state.queued, report.dust_rows(), report.pattern_rows()) == (0, {}, {})
    assert set(report.as_dict()["budgets"]) == {"www.h0.test", "h0.test"}
    assert await stored_robots(frontier.engine, frontier.keys, HOST) is None
    policy = RobotsPolicy.from_response(200, b"User-agent: *\nDisallow: /x", url=f"{HOST}/robots.txt")
    valkey.set(frontier.keys.robots(HOST), policy.to_bytes(), px=60_000)
    robots = await stored_robots(frontier.engine, frontier.keys, HOST)
    assert robots is not None and robots.policy == policy and 0 < robots.seconds <= 60
    valkey.set(frontier.keys.robots(HOST), b"damaged")
    with pytest.raises(StoreError, match=r"robots\.txt policy is damaged"):
        await stored_robots(frontier.engine, frontier.keys, HOST)
    with pytest.raises(StoreError, match="is no DUST rule of"):
        await switch_rules(crawl, HOST, off=["?sid"], on=[])


async def test_a_url_is_found_wherever_it_is(frontier: Frontier) -> None:
    states = {}
    await frontier.add([page(f"{HOST}/{n}", level=n, depth=2) for n in range(5)])
    states["queued"] = await url_state(frontier, HOST, "/4")
    (lease,) = await frontier.lease(1, 4)
    leased, retried, dead, dated = lease.urls
    states["leased"] = await url_state(frontier, HOST, leased.path)
    settled = [
        Settlement(retried.index, "retry", delay=1000),
        Settlement(dead.index, "dead", reason="status 500"),
        Settlement(dated.index, "again", delay=5000),
    ]
    assert await frontier.acknowledge(lease, settled) == []
    states["waiting"] = await url_state(frontier, HOST, retried.path)
    states["dead"] = await url_state(frontier, HOST, dead.path)
    states["scheduled"] = await url_state(frontier, HOST, dated.path)
    assert {name: one.state for name, one in states.items()} == {name: name for name in states}
    assert (states["queued"].level, states["queued"].depth) == (4, 2)
    assert states["leased"].worker == "w1"
    assert states["waiting"].attempts == 1
    assert states["dead"].reason == "status 500"
    waiting, scheduled = states["waiting"].due, states["scheduled"].due
    assert waiting is not None and scheduled is not None and 3000 < scheduled - waiting < 5000
    unknown = await url_state(frontier, HOST, "/never")
    assert (unknown.state, unknown.complete) == (None, True)


async def test_a_url_in_the_store_of_long_queues_is_not_told_to_be_unknown(
    frontier: Frontier, tmp_path: Path
) -> None:
    tails = await spilling(frontier, tmp_path, hot=100)
    for start in range(0, 3000, 1000):
        await frontier.add([page(url) for url in numbered(1000, start)])
        await serve(tails, frontier)
    found = {n: await url_state(frontier, LONG, f"/{n}") for n in (0, 1500)}
    assert (found[0].state, found[1500].state, found[1500].complete) == ("queued", None, False)
    await frontier.add([page("http://short.test/")])
    (row,) = (await table_of(frontier).window("long")).rows
    assert (row.host, row.queued) == (LONG, 3000)


async def test_special_characters_in_a_host_are_no_pattern(frontier_of: Callable[..., Frontier]) -> None:
    frontier = frontier_of()
    host = "http://[::1]:80"
    await frontier.schedule([Candidate(host, "/a*?[", None)], 1000)
    assert (await url_state(frontier, host, "/a*?[")).state == "scheduled"
    assert (await url_state(frontier, "http://[:*1]:80", "/a*?[")).state is None
