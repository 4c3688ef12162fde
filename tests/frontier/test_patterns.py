"""Records of URL patterns stay with their host, and URLs whose pattern has sunk wait at the lowest level."""

from __future__ import annotations

from collections.abc import Callable

from tests.frontier.copying import copied
from tests.frontier.pages import all_done, page, urls_of
from webcrawl.frontier import Frontier, LeasedURL, LeaseReport, Settlement
from webcrawl.policies.pattern_records import is_trial
from webcrawl.worker.host_records import KnownPatterns

HOST = "http://a.test"
Frontiers = Callable[..., Frontier]


async def report(frontier: Frontier, one: LeaseReport) -> list[LeasedURL] | None:
    replies: list[list[LeasedURL] | None] = []
    await frontier.settle_all([one], lambda _, urls, given: replies.append(urls))
    return replies[0]


async def test_a_lease_has_the_records_that_the_last_one_left(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/{n}") for n in range(5)])
    (lease,) = await frontier.lease(1, 1)
    assert lease.patterns == b""
    await report(frontier, LeaseReport(lease, all_done(lease), pause=0, patterns=b"\x90 records \xff"))
    (lease,) = await frontier.lease(1, 1)
    assert lease.patterns == await frontier.patterns(HOST) == b"\x90 records \xff"
    await report(frontier, LeaseReport(lease, all_done(lease), pause=0))
    (lease,) = await frontier.lease(1, 1)
    assert lease.patterns == b"\x90 records \xff"
    await report(frontier, LeaseReport(lease, all_done(lease), pause=0, patterns=b""))
    (lease,) = await frontier.lease(1, 1)
    assert lease.patterns == await frontier.patterns(HOST) == b""


async def test_a_worker_that_lost_its_lease_changes_no_records(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/1")])
    (lease,) = await frontier.lease(1, 1)
    await frontier.reap(everything=True)
    assert await report(frontier, LeaseReport(lease, (), patterns=b"late")) is None
    assert await frontier.patterns(HOST) == b""


async def test_a_url_that_sinks_comes_last_untried_and_once(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/sunk"), *(page(f"{HOST}/{n}", level=5) for n in range(3))])
    (lease,) = await frontier.lease(1, 1)
    assert urls_of([lease]) == [f"{HOST}/sunk"]
    sunk = LeaseReport(lease, [Settlement(lease.urls[0].index, "sink", reason="7")], pause=0)
    assert await report(frontier, sunk) is not None
    counts = await frontier.counts()
    assert (counts.queued, counts.leased, counts.done) == (4, 0, 0)
    (lease,) = await frontier.lease(1, 10)
    assert [(url.path, url.level, url.attempts) for url in lease.urls] == [
        ("/0", 5, 0),
        ("/1", 5, 0),
        ("/2", 5, 0),
        ("/sunk", 7, 0),
    ]
    await report(frontier, sunk)
    assert await frontier.release(lease, all_done(lease))
    assert await frontier.finished()


async def test_a_checkpoint_has_the_records(frontier_of: Frontiers) -> None:
    frontier, other = frontier_of(), frontier_of(crawl="other")
    await frontier.add([page(f"{HOST}/1")])
    (lease,) = await frontier.lease(1, 1)
    await report(frontier, LeaseReport(lease, all_done(lease), pause=0, patterns=b"records"))
    await copied(frontier, other)
    assert await other.patterns(HOST) == b"records"


def leased(path: str, level: int = 3, depth: int = 1, *, dated: bool = False, attempts: int = 0) -> LeasedURL:
    return LeasedURL(1, HOST, path, level, attempts, 0, depth, None, None, dated)


def test_only_plain_links_sink_when_they_are_leased() -> None:
    patterns = KnownPatterns()
    changes = [n for n in range(30) if patterns.add(HOST, f"/day/{n}", "copy")]
    assert len(changes) == 1
    path, trial = (
        [f"/day/{n}" for n in range(999) if is_trial(f"/day/{n}") is kept][0] for kept in (False, True)
    )
    assert patterns.sink(leased(path)) == Settlement(1, "sink", reason="7")
    kept = (leased(trial), leased(path, 7), leased(path, 0), leased(path, depth=0), leased(path, dated=True))
    assert [patterns.sink(url) for url in (*kept, leased(path, attempts=1), leased("/other"))] == [None] * 7
    assert KnownPatterns(sinks_leased=False).sink(leased(path)) is None


def test_links_of_sunk_pages_are_no_trials() -> None:
    patterns, trial = KnownPatterns(), next(f"/day/{n}" for n in range(999) if is_trial(f"/day/{n}"))
    assert patterns.tries(HOST, "/day/1")  # nothing is known of it
    for n in range(30):
        patterns.add(HOST, f"/day/{n}", "copy")
    assert not patterns.tries(HOST, "/day/1")
    assert patterns.tries(HOST, "/")
    assert patterns.tries("http://b.test", "/day/1")
    found = [patterns.levels(HOST, trial, tries=patterns.tries(HOST, source)) for source in ("/", "/day/1")]
    assert found == [0, 8]


def test_the_engine_is_told_what_sinks_once() -> None:
    patterns = KnownPatterns()
    for n in range(30):
        patterns.add(HOST, f"/article/{n}", "new")
    assert patterns.unsaved(HOST, last=True) is None
    for n in range(16):
        patterns.add(HOST, f"/day/{n}", "copy")
    packed = patterns.unsaved(HOST, last=False)
    assert packed
    patterns.saved(HOST, packed)
    assert patterns.unsaved(HOST, last=False) is None
    patterns.close(HOST)
    heir = KnownPatterns()
    heir.open(HOST, packed)
    assert heir.unsaved(HOST, last=True) is None
    for n in range(60):
        heir.add(HOST, f"/day/{n}", "new")
    assert heir.unsaved(HOST, last=False) == b""
