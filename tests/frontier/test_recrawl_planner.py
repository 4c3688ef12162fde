"""The planner of a recrawl queues each page that is due once, whenever it dies."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from sqlalchemy import create_engine, text

from tests.frontier.copying import copied
from webcrawl.documents.page import Page
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Candidate, Crawl, Frontier, Settlement
from webcrawl.frontier.planning import DROPPED, KNOWN, QUEUED, Planning, RecrawlState
from webcrawl.policies.change_rates import DAY
from webcrawl.policies.crawl_threshold import Threshold
from webcrawl.policies.crawl_value import Bounds
from webcrawl.policies.revisit_dates import KnownPage, RevisitDates
from webcrawl.policies.traffic import Traffic
from webcrawl.stores.columns import pages
from webcrawl.stores.due_pages import HELD, DuePages
from webcrawl.stores.metadata import Metadata
from webcrawl.urls.canonical import split
from webcrawl.worker import recrawl_planner
from webcrawl.worker.recrawl_planner import PlannedMinute, RecrawlPlanner

HOST = "http://a.test"
CRAWL = "crawl"
SECOND = 1 / 86_400
AT_ONCE = Bounds(SECOND)

Frontiers = Callable[..., Frontier]


def stored(uri: str, number: int, *, age: timedelta = timedelta(days=60), host: str = HOST) -> None:
    """Stores pages that were fetched so long ago, and are due."""
    dates = RevisitDates(Bounds())
    fetched_at = datetime.now(UTC) - age
    rows = [
        Page(url=f"{host}/{number}", host=host, fetched_at=fetched_at, status=200, digest="sha1:A").row()
        for number in range(number)
    ]
    with Metadata(uri, dates=dates) as metadata:
        metadata.upsert([row | {"crawl": CRAWL} for row in rows])


def planner_of(frontier: Frontier, uri: str, bounds: Bounds = AT_ONCE) -> RecrawlPlanner:
    dates = RevisitDates(bounds)
    return RecrawlPlanner(frontier, DuePages(uri, CRAWL), dates, Counter(), lambda: None)


async def fetched(frontier: Frontier) -> list[str]:
    """Fetches all URLs that are queued; returns them in order."""
    urls = []
    while leases := await frontier.lease(10, 20):
        for lease in leases:
            urls += [url.url for url in lease.urls]
            await frontier.release(lease, [Settlement(url.index) for url in lease.urls])
    return urls


def backdate(uri: str) -> None:
    """Makes all pages due that were put off, as if the time had passed."""
    engine = create_engine(uri)
    with engine.begin() as connection:
        before = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
        connection.execute(text("UPDATE pages SET next_due = :due"), {"due": before})
    engine.dispose()


async def test_due_pages_are_queued_once(frontier: Frontier, uri: str) -> None:
    stored(uri, 5)
    planner = planner_of(frontier, uri)
    await planner.turn()
    backdate(uri)  # they are offered again while they are queued
    await planner.turn()
    assert sorted(await fetched(frontier)) == [f"{HOST}/{number}" for number in range(5)]
    assert (await Planning(frontier.engine, frontier.keys, "w1").counts()).open == 0


def due_in(uri: str) -> list[timedelta]:
    """How long it is until each page is due."""
    with DuePages(uri, CRAWL) as due_pages:
        return [page.next_due - datetime.now(UTC) for page in due_pages.look("", 100)[0]]


async def test_a_page_whose_visit_is_stored_and_not_settled_is_looked_at_soon(
    frontier: Frontier, uri: str
) -> None:
    """Its date is that of its visit; a planner has claimed it while the engine still had it as queued."""
    stored(uri, 2)
    each_second = Bounds(SECOND, SECOND)
    planner = planner_of(frontier, uri, each_second)
    await planner.turn()
    now = datetime.now(UTC)
    rows = [
        Page(url=f"{HOST}/{n}", host=HOST, fetched_at=now, status=200, digest="sha1:A").row() for n in (0, 1)
    ]
    with Metadata(uri, dates=RevisitDates(each_second)) as metadata:
        metadata.upsert([row | {"crawl": CRAWL} for row in rows])
    assert all(wait < timedelta(seconds=2) for wait in due_in(uri))
    await planner.turn()
    assert all(wait < timedelta(seconds=15) for wait in due_in(uri))
    assert len(await fetched(frontier)) == 2


async def test_a_date_is_not_changed_after_a_visit(uri: str) -> None:
    stored(uri, 2)
    now = datetime.now(UTC)
    with DuePages(uri, CRAWL) as due_pages:
        claimed = due_pages.claim(now, now, 100)
        visited = Page(url=f"{HOST}/0", host=HOST, fetched_at=now, status=200, digest="sha1:A").row()
        with Metadata(uri, dates=RevisitDates(Bounds(7.0, 7.0))) as metadata:
            metadata.upsert([visited | {"crawl": CRAWL}])
        due_pages.put_off([(page, now) for page in claimed])
        assert [page.url for page in due_pages.claim(now, now, 100)] == [f"{HOST}/1"]


async def test_pages_of_a_planner_that_dies_between_claim_and_queue_are_due_again(
    frontier: Frontier, uri: str
) -> None:
    stored(uri, 5)
    now = datetime.now(UTC)
    with DuePages(uri, CRAWL) as due_pages:
        claimed = due_pages.claim(now, now, 100)
        assert len(claimed) == 5
        assert due_pages.claim(now, now, 100) == []
        later = now + HELD + timedelta(seconds=1)
        assert [page.url for page in due_pages.claim(later, later, 100)] == [page.url for page in claimed]
    backdate(uri)
    await planner_of(frontier, uri).turn()
    assert len(await fetched(frontier)) == 5


async def test_a_restored_page_is_not_planned_twice(frontier_of: Frontiers) -> None:
    crawl, copy = frontier_of(), frontier_of("copy", shards=3)
    pages = [(Candidate(HOST, "/now", None), 0.0), (Candidate(HOST, "/later", None), 3600.0)]
    assert await Planning(crawl.engine, crawl.keys, "w1").add(pages, 0.0, 10) == [QUEUED, QUEUED]
    assert [url.url for lease in await crawl.lease(10, 20) for url in lease.urls] == [f"{HOST}/now"]
    await copied(crawl, copy)
    planning = Planning(copy.engine, copy.keys, "w1")
    assert await planning.add(pages, 0.0, 10) == [KNOWN, KNOWN]
    assert (await planning.counts()).open == 2
    assert await fetched(copy) == [f"{HOST}/now"]
    assert (await planning.counts()).open == 1


async def test_a_page_that_was_fetched_since_its_row_was_read_is_not_queued(frontier: Frontier) -> None:
    planning = Planning(frontier.engine, frontier.keys, "w1")
    page = Candidate(HOST, "/", None)
    assert await planning.add([(page, 0.0)], 0.0, 10) == [QUEUED]
    assert await planning.add([(page, 0.0)], 0.0, 10) == [KNOWN]
    assert await fetched(frontier) == [f"{HOST}/"]
    # a planner that had read the row a minute ago
    assert await planning.add([(page, 0.0)], 60.0, 10) == [KNOWN]
    assert await fetched(frontier) == []
    assert await planning.add([(page, 0.0)], 0.0, 10) == [QUEUED]


async def test_pages_of_a_worker_that_dies_are_not_queued_twice(frontier_of: Frontiers, uri: str) -> None:
    stored(uri, 3)
    dying, other = frontier_of(worker="w1", lease_seconds=0.001), frontier_of(worker="w2")
    await planner_of(dying, uri).turn()
    assert len((await dying.lease(1, 10))[0].urls) == 3
    backdate(uri)
    await planner_of(other, uri).turn()
    await other.reap()
    assert len(await fetched(other)) == 3


async def test_a_host_has_few_pages_in_the_queue_and_an_operator_may_drop_them(frontier: Frontier) -> None:
    planning = Planning(frontier.engine, frontier.keys, "w1")
    pages = [(Candidate(HOST, f"/{number}", None), 0.0) for number in range(5)]
    outcomes = await planning.add(pages, 0.0, 3)
    assert outcomes[:3] == [QUEUED] * 3
    assert all(outcome > 0 for outcome in outcomes[3:])
    assert (await planning.counts()).open == 3
    shard = frontier.keys.shard(HOST)
    await frontier.engine.client.hset(f"{frontier.keys.queue(shard)[0]}dropped", f"{HOST}/9", 1)
    assert await planning.add([(Candidate(HOST, "/9", None), 0.0)], 0.0, 30) == [DROPPED]


async def test_a_slow_host_gets_its_best_pages(
    frontier: Frontier, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host bears a request an hour: 24 of its 600 pages a day, those of the highest importance."""
    monkeypatch.setattr(recrawl_planner, "_MINUTE", 0.0)
    stored(uri, 600)
    engine = create_engine(uri)
    with engine.begin() as connection:
        best = "CASE WHEN CAST(SUBSTR(url, 15) AS INTEGER) < 60 THEN 20.0 ELSE 0.1 END"
        connection.execute(text(f"UPDATE pages SET importance = {best}"))
    engine.dispose()
    await Planning(frontier.engine, frontier.keys, "w1").add([(Candidate(HOST, "/first", None), 0.0)], 0.0, 9)
    (lease,) = await frontier.lease(1, 20)
    lease.gap = 3_600.0
    await frontier.release(lease, [Settlement(url.index) for url in lease.urls])
    planner = planner_of(frontier, uri)
    await planner.turn()
    assert (await Planning(frontier.engine, frontier.keys, "w1").counts()).open == 4
    backdate(uri)
    await planner.turn()
    with DuePages(uri, CRAWL) as due_pages:
        rows = due_pages.look("", 600)[0]
        days = {
            row.url: planner._dates.next_days(KnownPage(*split(row.url), row.importance, row.change_evidence))
            for row in rows
        }
    assert sum(1 / wait for wait in days.values()) == pytest.approx(24, rel=0.1)
    good, other = (
        [days[row.url] for row in rows if ((row.importance or 0) > 1) is better] for better in (True, False)
    )
    assert max(good) < min(other)


async def test_one_worker_plans_until_it_leaves(frontier: Frontier) -> None:
    first, second = (Planning(frontier.engine, frontier.keys, name) for name in ("w1", "w2"))
    assert (await first.turn(3, 60)).plans
    assert not (await second.turn(4, 60)).plans
    assert (await first.turn(1, 60)).visits == 5
    await first.leave()
    assert (await second.turn(0, 60)).plans


async def test_the_plan_of_another_crawl_is_left_alone(frontier_of: Frontiers, uri: str) -> None:
    stored(uri, 3)
    frontier = frontier_of("other")
    assert frontier.keys == Keys("other", 4)
    planner = RecrawlPlanner(
        frontier, DuePages(uri, "other"), RevisitDates(Bounds()), Counter(), lambda: None
    )
    await planner.turn()
    assert await fetched(frontier) == []


async def test_pages_that_were_fetched_without_a_plan_get_one(frontier: Frontier, uri: str) -> None:
    with Metadata(uri) as metadata:
        for number, days in enumerate((60, 0.01)):
            fetched_at = datetime.now(UTC) - timedelta(days=days)
            page = Page(url=f"{HOST}/{number}", host=HOST, fetched_at=fetched_at, status=200)
            metadata.upsert([page.row() | {"crawl": CRAWL}])
    planner = planner_of(frontier, uri)
    await planner.turn()
    assert await fetched(frontier) == [f"{HOST}/0"]
    with Metadata(uri) as metadata:
        assert all(row["next_due"] > datetime.now(UTC) for row in metadata.scan())


async def test_pages_are_queued_for_the_class_that_their_rows_tell(frontier: Frontier, uri: str) -> None:
    now = datetime.now(UTC) - timedelta(days=30)
    gone, feed, other = (
        Page(url=f"{HOST}/{n}", host=HOST, fetched_at=now, status=404 if n == 0 else 200, digest=f"sha1:{n}")
        for n in range(3)
    )
    hub, soft = (Page(url=f"{HOST}/{n}", host=HOST, fetched_at=now, status=200) for n in (3, 4))
    feed.mime_type = "application/rss+xml"
    with Metadata(uri, dates=RevisitDates(AT_ONCE)) as metadata:
        metadata.upsert([page.row() | {"crawl": CRAWL} for page in (gone, feed, other, hub, soft)])
    backdate(uri)
    change(uri, [3], new_links=3)
    change(uri, [4], new_links=3, soft_404=True)
    await planner_of(frontier, uri).turn()
    [lease] = await frontier.lease(1, 10)
    assert {(url.path, url.fetch_class) for url in lease.urls} == {
        ("/0", "coverage-chk"),
        ("/1", "freshness-chk"),
        ("/2", "update-chk"),
        ("/3", "freshness-chk"),
        ("/4", "coverage-chk"),
    }
    assert {url.path for url in lease.urls[:2]} == {"/1", "/3"}, "what names new pages comes first"


HALVES = Traffic({"coverage-get": 2, "freshness-chk": 1, "update-chk": 1})


def change(uri: str, numbers: Sequence[int], **columns: object) -> None:
    """Sets columns of pages of HOST."""
    engine = create_engine(uri)
    with engine.begin() as connection:
        urls = [f"{HOST}/{number}" for number in numbers]
        connection.execute(pages.update().where(pages.c.url.in_(urls)).values(columns))
    engine.dispose()


@pytest.mark.parametrize("traffic", [None, HALVES], ids=["one plan", "shares"])
async def test_each_class_has_its_share_of_the_room_in_a_backlog(
    frontier_of: Frontiers, uri: str, monkeypatch: pytest.MonkeyPatch, traffic: Traffic | None
) -> None:
    """Hubs that are due after 300 other pages are not kept out by them, wherever in the backlog they stand."""
    monkeypatch.setattr(recrawl_planner, "_MOST_OPEN", 20)
    monkeypatch.setattr(recrawl_planner, "_LOOKED_AT", 100)
    frontier = frontier_of("crawl", "w1", shards=1, traffic=traffic)
    if traffic:
        await Crawl(frontier.engine, frontier.keys, "w1").configure(0, "breadth-first", traffic="{}")
    stored(uri, 310)
    change(uri, range(310), next_due=datetime.now(UTC) - timedelta(days=2))
    change(uri, range(5), new_links=9, next_due=datetime.now(UTC) - timedelta(days=1))
    planner = planner_of(frontier, uri)
    classes = Counter[str]()
    for turn in range(8):
        if turn == 4:
            change(uri, range(5, 10), new_links=9, next_due=datetime.now(UTC))
        await planner.turn()
        [lease] = await frontier.lease(1, 20)
        classes.update(url.fetch_class for url in lease.urls)
        await frontier.release(lease, [Settlement(url.index) for url in lease.urls])
    assert sum(classes.values()) == 8 * 20
    assert classes["freshness-chk"] == (10 if traffic else 0)
    await planner.stop()


async def test_a_class_of_a_host_has_room_to_itself(frontier_of: Frontiers) -> None:
    frontier = frontier_of("crawl", "w1", shards=1, traffic=HALVES)
    await Crawl(frontier.engine, frontier.keys, "w1").configure(0, "breadth-first", traffic="{}")
    planning = Planning(frontier.engine, frontier.keys, "w1")

    async def add(name: str, first: int, number: int) -> int:
        """Plans pages of a class; returns how many were queued."""
        urls = [Candidate(HOST, f"/{first + n}", None, fetch_class=name) for n in range(number)]
        return (await planning.add([(url, 0.0) for url in urls], 0.0, 10, HALVES)).count(QUEUED)

    assert await add("update-chk", 0, 30) == 10
    assert await add("freshness-chk", 100, 30) == 5
    assert await add("coverage-chk", 200, 30) == 0, "its share is 0"
    assert len(await fetched(frontier)) == 15
    key = f"{frontier.keys.queue(0)[0]}planning"
    assert await frontier.engine.client.hgetall(key) == {}
    assert await add("freshness-chk", 300, 30) == 10, "what others do not use is for all"


async def test_the_threshold_falls_while_known_pages_do_not_use_their_share(
    frontier_of: Frontiers, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New pages keep the crawl busy, so that nothing else tells of room for known ones."""
    monkeypatch.setattr(recrawl_planner, "_MINUTE", 0.0)
    stored(uri, 0)
    thresholds = []
    for traffic in (None, Traffic({"coverage-get": 1, "update-chk": 1})):
        frontier = frontier_of(f"crawl{len(thresholds)}", "w1", traffic=traffic)
        planner = planner_of(frontier, uri)
        planner._begins = False
        await Planning(frontier.engine, frontier.keys, "w1").set_state(Threshold(1.0), RecrawlState())
        await frontier.add([Candidate(HOST, "/new", None)])
        for fetches in (0, 1_000):
            if traffic:
                traffic.update({"": {"coverage-get": fetches}}, 1, {})
            planner._minute = PlannedMinute(began=time.monotonic() - DAY / 10, visits=10, due=10)
            await planner.turn()
        thresholds.append(planner._dates.threshold.value)
        await planner.stop()
    assert thresholds[0] == pytest.approx(1.0)
    assert thresholds[1] < 0.96


async def test_a_class_that_lacks_fetches_has_pages_before_they_are_due(
    frontier_of: Frontiers, uri: str
) -> None:
    """None of a class without a share, or sooner than the shortest time, which grows while a page is gone."""
    traffic = Traffic({"coverage-get": 6, "coverage-chk": 2, "update-chk": 2})
    frontier = frontier_of("crawl", "w1", shards=1, traffic=traffic)
    await Crawl(frontier.engine, frontier.keys, "w1").configure(0, "breadth-first", traffic="{}")
    stored(uri, 40, age=timedelta(hours=2))
    later = datetime.now(UTC) + timedelta(days=9)
    change(uri, range(40), next_due=later)
    for numbers, gone in ((range(5), 1), (range(5, 10), 3)):
        change(uri, numbers, state="missing", change_evidence=[1, 0.0, 0.0, 0.0, 0.0, gone, 0.1, 0.0, 1, ""])
    change(uri, range(10, 12), state="failed")
    change(uri, range(12, 20), is_date_set=True)
    change(uri, range(20, 28), tried_at=datetime.now(UTC))
    change(uri, range(28, 30), new_links=9)
    planner = planner_of(frontier, uri, Bounds(shortest=1 / 24))
    traffic.update({"": {}}, 1, {})
    await planner.turn()
    traffic.update({"": {"coverage-get": 30}}, 1, {})
    await planner.turn()
    [lease] = await frontier.lease(1, 99)
    numbers = {int(url.path[1:]): url.fetch_class for url in lease.urls}
    assert {number for number, name in numbers.items() if name == "coverage-chk"} == set(range(5))
    updates = {number for number, name in numbers.items() if name == "update-chk"}
    assert updates <= set(range(30, 40)) and len(updates) >= 6
    traffic.update({"": {"coverage-get": 30, "coverage-chk": 5, "update-chk": 20}}, 1, {})
    await planner.turn()
    assert (await Planning(frontier.engine, frontier.keys, "w1").counts()).open == len(lease.urls)
    await planner.stop()


async def test_each_worker_has_pages_of_a_class_that_lacks_fetches(frontier_of: Frontiers, uri: str) -> None:
    """Pages that wait at hosts of one worker are none for another, which would fetch from other classes."""
    traffic = Traffic({"coverage-get": 1, "update-chk": 1})
    frontier = frontier_of("crawl", "w1", shards=2, traffic=traffic)
    record = Crawl(frontier.engine, frontier.keys, "w1")
    await record.configure(0, "breadth-first", traffic="{}")
    await record.workers.share_out({0: "w1", 1: "w2"})
    names = (f"http://h{n}.test" for n in itertools.count())
    hosts = [next(name for name in names if frontier.keys.shard(name) == shard) for shard in (0, 1)]
    engine = create_engine(uri)
    for days, host in enumerate(hosts, 8):
        stored(uri, 30, age=timedelta(hours=2), host=host)
        with engine.begin() as connection:
            due = datetime.now(UTC) + timedelta(days=days)
            connection.execute(pages.update().where(pages.c.host == host).values(next_due=due))
    engine.dispose()
    planner = planner_of(frontier, uri, Bounds(shortest=1 / 24))
    planning = Planning(frontier.engine, frontier.keys, "w1")
    await frontier.add([Candidate(hosts[0], "/new", None)])  # or the crawl would be idle

    async def queued_after(**fetched: int) -> list[int]:
        """Returns how many pages are queued for each worker after a turn."""
        traffic.update({"": {name.replace("_", "-"): n for name, n in fetched.items()}}, 2, {})
        await planner.turn()
        return [classes["update-chk"] for classes in (await planning.counts()).classes]

    assert await queued_after() == [0, 0]
    assert await queued_after(coverage_get=20) == [20, 20]
    [lease] = await frontier.lease(1, 20, [1])
    await frontier.release(lease, [Settlement(url.index) for url in lease.urls])
    assert await queued_after(coverage_get=20, update_chk=20) == [20, 20]
    await planner.stop()


async def test_the_first_threshold_is_computed_again_in_times_twice_as_long(
    frontier: Frontier, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first minute showed a hundred times the capacity; later ones would only follow within weeks."""
    monkeypatch.setattr(recrawl_planner, "_MINUTE", 0.0)
    stored(uri, 50)
    planner = planner_of(frontier, uri, Bounds(shortest=SECOND))

    async def threshold_after(minutes: float, visits: int) -> float:
        planner._beginning = PlannedMinute(began=time.monotonic() - 60 * minutes, visits=visits)
        await planner._follow(None)
        return planner._dates.threshold.value

    planner._begins = True
    first = await threshold_after(1, 100)
    assert await threshold_after(1.5, 100) < 2 * first, "too soon"
    assert await threshold_after(100, 100) > 50 * first
    await threshold_after(3 * DAY / 60, 10_000)
    assert not planner._begins
    await planner.stop()


async def test_a_date_that_was_set_is_waited_for_and_not_moved(frontier: Frontier, uri: str) -> None:
    """The threshold would put the first page off, and have the second fetched early."""
    stored(uri, 1, age=timedelta())
    stored(uri, 1, host="http://b.test")
    now = datetime.now(UTC)
    dates = {f"{HOST}/0": now, "http://b.test/0": now + timedelta(hours=1), f"{HOST}/unknown": now}
    with DuePages(uri, CRAWL) as due_pages:
        assert due_pages.set_dates(dates) == {f"{HOST}/0", "http://b.test/0"}
    planner = planner_of(frontier, uri, Bounds())
    await planner.turn()
    assert await fetched(frontier) == [f"{HOST}/0"]
    await planner.turn()
    assert await fetched(frontier) == []


async def test_a_date_that_is_set_after_a_claim_stays(uri: str) -> None:
    stored(uri, 1)
    now = datetime.now(UTC)
    with DuePages(uri, CRAWL) as due_pages:
        claimed = due_pages.claim(now, now, 100)
        due_pages.set_dates({f"{HOST}/0": now + timedelta(days=1)})
        due_pages.put_off([(page, now) for page in claimed])
        assert [page.next_due for page in due_pages.look("", 1)[0]] == [now + timedelta(days=1)]


async def test_a_spider_date_is_kept_and_a_page_without_a_plan_keeps_it(frontier: Frontier, uri: str) -> None:
    with Metadata(uri) as metadata:
        page = Page(url=f"{HOST}/0", host=HOST, fetched_at=datetime.now(UTC) - timedelta(days=60), status=200)
        metadata.upsert([page.row() | {"crawl": CRAWL}])
    planner = planner_of(frontier, uri)
    assert not planner.keep_date(f"{HOST}/0", 1.0), "the engine keeps it"
    assert planner.keep_date(f"{HOST}/0", 86_400.0)
    await planner.turn()
    assert await fetched(frontier) == []
    [wait] = due_in(uri)
    assert timedelta(hours=23) < wait <= timedelta(days=1)


def test_a_sample_of_a_host_is_even_and_without_pages_that_have_no_date(uri: str) -> None:
    stored(uri, 300)
    stored(uri, 50, host="http://b.test")
    with closing(DuePages(uri, CRAWL)) as due_pages:
        whole, number = due_pages.sample(1_000, HOST)
        assert (len(whole), number) == (300, 300)
        due_pages.put_off([(page, None) for page in whole[::7]])
        some, number = due_pages.sample(100, HOST)
        assert 240 <= number <= 275 and 75 <= len(some) <= 100
        # by URL, as the pages of a host that look alike stand together
        halves = [page.url < whole[150].url for page in some]
        assert abs(2 * sum(halves) - len(some)) <= 2
        planned, last = due_pages.look("", 200)
        assert len(planned) < 200 and last is not None
        rest, end = due_pages.look(last, 200)
        assert end is None and len(planned) + len(rest) == 300 - 43 + 50


@pytest.mark.parametrize("jump", [timedelta(days=40), timedelta(days=-40)])
async def test_a_clock_that_is_set_stops_no_page_and_repeats_none(
    frontier: Frontier, uri: str, jump: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the pages were visited before the clock was set. The plan goes on by the new clock."""
    ten_days = Bounds(10.0, 10.0)
    now = datetime.now(UTC)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return now

    monkeypatch.setattr(recrawl_planner, "datetime", Clock)

    def visit(urls: Sequence[str]) -> None:
        rows = [Page(url=url, host=HOST, fetched_at=now, status=200, digest="sha1:A").row() for url in urls]
        with Metadata(uri, dates=RevisitDates(ten_days)) as metadata:
            metadata.upsert([row | {"crawl": CRAWL} for row in rows])

    async def due() -> list[str]:
        planner = planner_of(frontier, uri, ten_days)
        await planner.turn()
        await planner.stop()
        return sorted(await fetched(frontier))

    visit([f"{HOST}/{number}" for number in range(6)])
    now += jump
    visit([f"{HOST}/{number}" for number in range(3)])
    first = await due()
    assert first == ([f"{HOST}/{number}" for number in range(3, 6)] if jump > timedelta(0) else [])
    visit(first)
    now += timedelta(days=9)
    assert await due() == []
    now += timedelta(days=2)
    assert await due() == [f"{HOST}/{number}" for number in range(6)]


async def test_pages_are_fetched_early_while_others_wait_for_their_minute(
    frontier: Frontier, uri: str
) -> None:
    stored(uri, 1)
    stored(uri, 1, host="http://b.test")
    now = datetime.now(UTC)
    with DuePages(uri, CRAWL) as due_pages:
        due_pages.set_dates({f"{HOST}/0": now + timedelta(seconds=50)})
        other = [page for page in due_pages.look("", 2)[0] if page.url == "http://b.test/0"]
        due_pages.put_off([(page, now + timedelta(days=10)) for page in other])
    planner = planner_of(frontier, uri, Bounds())
    await planner.turn()
    assert (await Planning(frontier.engine, frontier.keys, "w1").counts()).open == 2
    assert await fetched(frontier) == ["http://b.test/0"]


async def test_the_threshold_of_a_slow_crawl_follows_from_the_visits_of_several_minutes(
    frontier: Frontier, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recrawl_planner, "_MINUTE", 0.0)
    stored(uri, 5)
    planner, visits = planner_of(frontier, uri), Planning(frontier.engine, frontier.keys, "w2")
    thresholds = []
    for _ in range(3):
        await planner.turn()
        thresholds.append(planner._dates.threshold.value)
        await visits.turn(60, 60)
    assert thresholds[1] == pytest.approx(thresholds[0], rel=0.01)
    assert thresholds[2] < thresholds[0] / 100, "five pages, and more than a visit a second"
