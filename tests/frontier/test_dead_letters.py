"""Dead letters: URLs that are given up are listed with the reason, never lost, and requeued on request."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgpack

from tests.cases import cases
from tests.frontier.pages import page, urls_of
from tests.frontier.spilling import spilling
from webcrawl.frontier import DeadLetter, Frontier, Settlement
from webcrawl.frontier.dead_letters import CrawlDeadLetters, kind_of

HOST = "http://a.test"
OTHER = "http://b.test"

Frontiers = Callable[..., Frontier]


async def letters_of(frontier: Frontier) -> list[DeadLetter]:
    """The dead letters, sorted by URL."""
    return sorted([letter async for letter in frontier.dead_letters()], key=lambda letter: letter.url)


async def fail_all(frontier: Frontier, reason: str = "gone") -> None:
    """Lease everything that is ready, and settle it as dead."""
    for lease in await frontier.lease(100, 100):
        dead = [Settlement(url.index, "dead", reason=reason) for url in lease.urls]
        await frontier.release(lease, dead)


async def test_dead_letters_are_listed_with_reason_time_and_attempts(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/1"), page(f"{OTHER}/ö?q=1", depth=70_000, referrer=f"{HOST}/1")])
    for lease in await frontier.lease(10, 10):
        await frontier.release(lease, [Settlement(1, "retry")])
    await fail_all(frontier, "status 500 — für immer")
    first, second = await letters_of(frontier)
    assert (first.url, first.reason, first.attempts) == (f"{HOST}/1", "status 500 — für immer", 1)
    assert second.url == f"{OTHER}/ö?q=1"
    assert abs(first.time - time.time()) < 60
    assert (await frontier.counts()).dead == 2
    assert await frontier.finished()


async def test_dead_letters_are_requeued_with_all_their_fields(frontier: Frontier) -> None:
    extra = msgpack.packb({"method": "POST", "body": bytes(range(256)) * 300})
    await frontier.add([page(f"{HOST}/1", level=5, depth=7, referrer=f"{OTHER}/x", extra=extra)])
    await fail_all(frontier)
    assert await frontier.requeue([(HOST, f"{HOST}/1"), (HOST, f"{HOST}/never"), (OTHER, f"{OTHER}/1")]) == 1
    assert await letters_of(frontier) == []
    (lease,) = await frontier.lease(10, 10)
    (url,) = lease.urls
    assert (url.url, url.level, url.depth, url.referrer) == (f"{HOST}/1", 5, 7, f"{OTHER}/x")
    assert (url.attempts, url.returns, url.extra) == (0, 0, extra)
    counts = await frontier.counts()
    assert (counts.dead, counts.queued, counts.leased) == (0, 0, 1)


async def test_a_dead_letter_stays_in_the_seen_set(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/1")])
    await fail_all(frontier)
    assert await frontier.add([page(f"{HOST}/1")]) == [False]


async def test_different_requests_for_one_url_are_separate_dead_letters(frontier: Frontier) -> None:
    bodies = [None, b"form=1", b"form=2"]
    await frontier.add([page(f"{HOST}/1", fingerprint=n, extra=body) for n, body in enumerate(bodies)])
    await fail_all(frontier)
    assert [letter.url for letter in await letters_of(frontier)] == [f"{HOST}/1"] * 3
    assert (await frontier.counts()).dead == 3
    assert await frontier.requeue({(HOST, f"{HOST}/1")}) == 3
    (lease,) = await frontier.lease(10, 10)
    assert {url.extra for url in lease.urls} == {*bodies}


async def test_a_condemned_host_loses_only_its_queued_urls(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/{n}", level=n % 8) for n in range(2500)])
    await frontier.add([page(f"{OTHER}/1")])
    lease = next(one for one in await frontier.lease(10, 3) if one.host == HOST)
    assert await frontier.condemn(HOST, "given up") == 2497
    await frontier.release(lease)
    assert {letter.reason for letter in await letters_of(frontier)} == {"given up"}
    again = await frontier.lease(10, 10)
    assert [(one.host, len(one.urls)) for one in again] == [(HOST, 3)]
    assert (await frontier.counts()).dead == 2497
    assert await frontier.condemn("http://unknown.test", "given up") == 0


async def test_a_condemned_host_is_ready_again_when_urls_are_added(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/1")])
    await frontier.condemn(HOST, "given up")
    assert await frontier.lease(10, 10) == []
    await frontier.add([page(f"{HOST}/2")])
    assert urls_of(await frontier.lease(10, 10)) == [f"{HOST}/2"]


async def test_a_url_whose_workers_die_is_given_up_but_not_the_next_ones(frontier_of: Frontiers) -> None:
    frontier = frontier_of(max_attempts=3)
    await frontier.add([page(f"{HOST}/{name}") for name in ("poison", "innocent", "bystander")])
    for _ in range(2):
        await frontier.lease(1, 3)
        assert await frontier.reap(everything=True) == (1, 0)
    await frontier.lease(1, 3)
    assert await frontier.reap(everything=True) == (1, 1)
    (letter,) = await letters_of(frontier)
    assert letter.url == f"{HOST}/poison" and "worker" in letter.reason
    (lease,) = await frontier.lease(1, 3)
    assert [(url.path, url.returns) for url in lease.urls] == [("/innocent", 3), ("/bystander", 3)]


async def test_reaping_blames_as_many_urls_as_may_have_been_started(frontier_of: Frontiers) -> None:
    frontier = frontier_of(max_attempts=1, started_together=2)
    await frontier.add([page(f"{HOST}/{n}") for n in range(4)])
    (lease,) = await frontier.lease(1, 4)
    await frontier.acknowledge(lease, [Settlement(1)])
    assert await frontier.reap(everything=True) == (1, 2)
    assert [letter.url for letter in await letters_of(frontier)] == [f"{HOST}/1", f"{HOST}/2"]


async def test_dead_letters_are_grouped_by_reason_in_bounded_work(frontier: Frontier, tmp_path: Path) -> None:
    await frontier.add([page(f"{HOST}/{n}") for n in range(7)])
    await fail_all(frontier, "gone")
    await frontier.add([page(f"{OTHER}/1")])
    await fail_all(frontier, "status 500")
    letters = CrawlDeadLetters(frontier, await spilling(frontier, tmp_path))
    found = await letters.by_reason()
    assert [(one.kind, one.letters) for one in found.reasons] == [("gone", 7), ("status 500", 1)]
    assert [len(one.samples) for one in found.reasons] == [5, 1]
    assert (found.read, found.complete) == (8, True)
    some = await letters.by_reason(most=3)
    assert (some.read, some.complete, sum(one.letters for one in some.reasons)) == (3, False, 3)
    assert [one.kind for one in (await letters.by_reason(OTHER)).reasons] == ["status 500"]
    assert (await letters.by_reason(reason="nothing like it")).reasons == []


@cases(
    ("reason", "kind"),
    [
        (
            "RobotsUnreachable: http://a.test:8/robots.txt is unreachable: cannot connect to 10.0.0.1:9: refused",
            "RobotsUnreachable: … is unreachable: cannot connect to …: refused",
        ),
        ("cannot connect to [::1]:80: refused", "cannot connect to …: refused"),
        ("NameNotResolved: www.a.test: NXDOMAIN", "NameNotResolved: …: NXDOMAIN"),
        ("the host bad.example.org, was given up", "the host …, was given up"),
        (
            "[<twisted.internet.error.ConnectionDone: closed>]",
            "[<twisted.internet.error.ConnectionDone: closed>]",
        ),
        ("status 500", "status 500"),
    ],
)
def test_reasons_without_their_addresses_are_of_a_kind(reason: str, kind: str) -> None:
    assert kind_of(reason) == kind


async def test_all_of_a_kind_are_requeued_and_no_others(frontier: Frontier, tmp_path: Path) -> None:
    for number in range(5):
        host = f"http://h{number}.test"
        await frontier.add([page(f"{host}/1")])
        await fail_all(frontier, f"cannot connect to {host}: refused" if number else f"{host}: refused")
    letters = CrawlDeadLetters(frontier, await spilling(frontier, tmp_path))
    kind = "cannot connect to …: refused"
    assert [(one.kind, one.letters) for one in (await letters.by_reason()).reasons] == [
        (kind, 4),
        ("…: refused", 1),
    ]
    assert await letters.requeue("http://h1.test", kind=kind) == 1
    assert await letters.requeue(reason="h2.test", kind=kind) == 1
    assert await letters.requeue(kind=kind) == 2
    assert [letter.url for letter in await letters_of(frontier)] == ["http://h0.test/1"]
