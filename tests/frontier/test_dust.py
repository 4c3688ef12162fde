"""Evidence for DUST rules stays with its host, and URLs that a rule makes simpler are not fetched."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.frontier.consumer import Consumer, page_with
from tests.frontier.copying import copied
from tests.frontier.pages import all_done, hash_of, page
from webcrawl.frontier import Candidate, Frontier, LeasedURL, LeaseReport
from webcrawl.frontier.host_report import DustRules
from webcrawl.policies.dust_rules import LEAST_PAIRS
from webcrawl.policies.page_sketches import Sketch
from webcrawl.worker.host_records import MOST_SITES, Dust

HOST = "http://a.test"
Frontiers = Callable[..., Frontier]


async def report(frontier: Frontier, one: LeaseReport) -> None:
    await frontier.settle_all([one])


def rules_of(frontier: Frontier) -> DustRules:
    return DustRules(frontier.engine, frontier.keys)


def learned(host: str = HOST) -> Dust:
    """Rules after pages with and without a session."""
    dust = Dust(fingerprint=hash_of)
    for n in range(LEAST_PAIRS):
        for number, session in enumerate(("", "?sid=1", "?sid=2", "?sid=3", "?sid=4", "?sid=5")):
            dust.add(host, f"/{n}{session}", Sketch(1 + n * 10 + number, random.Random(n).getrandbits(64)))
    return dust


def leased(
    path: str, depth: int = 1, *, dated: bool = False, attempts: int = 0, extra: bytes | None = None
) -> LeasedURL:
    return LeasedURL(1, HOST, path, 3, attempts, 0, depth, None, extra, dated)


async def test_a_lease_has_the_evidence_that_the_last_one_left(frontier: Frontier) -> None:
    await frontier.add([page(f"{HOST}/{n}") for n in range(4)])
    (lease,) = await frontier.lease(1, 1)
    assert (lease.dust, lease.dust_off) == (b"", frozenset())
    await report(
        frontier, LeaseReport(lease, all_done(lease), pause=0, dust=b"\x90 evidence \xff", patterns=b"p")
    )
    await rules_of(frontier).switch_off(HOST, ["/a?b", "www."])
    (lease,) = await frontier.lease(1, 1)
    assert (lease.dust, lease.dust_off) == (b"\x90 evidence \xff", {"/a?b", "www."})
    assert (lease.patterns, await frontier.patterns(HOST)) == (b"p", b"p")
    assert await rules_of(frontier).of(HOST) == (lease.dust, lease.dust_off)
    await report(frontier, LeaseReport(lease, all_done(lease), pause=0, dust=b""))
    await rules_of(frontier).switch_off(HOST, [])
    (lease,) = await frontier.lease(1, 1)
    assert (lease.dust, lease.dust_off) == (b"", frozenset())


async def test_a_checkpoint_has_the_evidence_and_what_is_switched_off(frontier_of: Frontiers) -> None:
    frontier, other = frontier_of(), frontier_of(crawl="other")
    await frontier.add([page(f"{HOST}/1")])
    (lease,) = await frontier.lease(1, 1)
    await report(frontier, LeaseReport(lease, all_done(lease), pause=0, dust=b"evidence"))
    await rules_of(frontier).switch_off(HOST, ["*?sid"])
    await copied(frontier, other)
    assert await rules_of(other).of(HOST) == (b"evidence", {"*?sid"})


async def test_queued_urls_are_replaced_and_none_is_fetched_twice(frontier: Frontier) -> None:
    """The URLs were queued before their rule was known: each page is fetched once, by its simpler URL."""
    await frontier.add([page(f"{HOST}/seed", depth=0)])
    await frontier.add([page(f"{HOST}/{n}?sid={m}", depth=1) for n in range(20, 24) for m in range(5)])
    consumer = Consumer(frontier, lambda _: page_with(), dust=learned())
    await consumer.run()
    assert consumer.fetched == {f"{HOST}/{path}": 1 for path in ("20", "21", "22", "23", "seed")}
    assert await frontier.finished()
    packed, _ = await rules_of(frontier).of(HOST)
    heir = Dust(fingerprint=hash_of)
    heir.open(HOST, packed)
    assert heir.rewrite(HOST, "/99?sid=7") is not None


def test_only_plain_links_are_replaced() -> None:
    dust = learned()
    simpler = Candidate(HOST, "/99", hash_of(f"{HOST}/99"), 3, 4)
    assert dust.replacement(leased("/99?sid=7", depth=4)) == simpler
    kept = (leased("/99?sid=7", 0), leased("/99?sid=7", dated=True), leased("/99?sid=7", attempts=1))
    assert [dust.replacement(url) for url in (*kept, leased("/99?sid=7", extra=b"x"), leased("/99?a=1"))] == [
        None
    ] * 5
    same = Dust(fingerprint=lambda url: hash_of(url.partition("?")[0]))
    packed = dust.unsaved(HOST, last=True)
    assert packed
    same.open(HOST, packed)
    assert same.replacement(leased("/99?sid=7")) is None, "the seen test would drop it"


def test_a_url_that_a_filter_drops_or_changes_is_not_made() -> None:
    packed = learned().unsaved(HOST, last=True)
    assert packed
    for admit in (lambda url: None, lambda url: url + "x"):
        strict = Dust(admit, hash_of)
        strict.open(HOST, packed)
        assert strict.rewrite(HOST, "/99?sid=7") is None


def test_the_engine_is_told_once_and_workers_agree() -> None:
    dust = learned()
    packed = dust.unsaved(HOST, last=False)
    assert packed
    dust.saved(HOST, packed)
    assert dust.unsaved(HOST, last=True) is None
    dust.close(HOST)
    dust.open(HOST, packed)
    assert dust.unsaved(HOST, last=True) is None
    dust.open(HOST, packed, frozenset({"/#?sid"}))
    assert dust.rewrite(HOST, "/99?sid=7") is None
    dust.open(HOST, packed)
    assert dust.rewrite(HOST, "/99?sid=7") is not None
    off = Dust(enabled=False)
    off.open(HOST, packed)
    assert off.rewrite(HOST, "/99?sid=7") is None


def test_a_worker_remembers_the_last_sites() -> None:
    dust = learned()
    for n in range(MOST_SITES):
        dust.add(f"http://b{n}.test", "/a?b=1", Sketch(1, 1))
    assert not dust.active
    assert dust.rewrite(HOST, "/99?sid=7") is None
    assert dust.unsaved(HOST, last=True) is None


def test_pages_are_compared_where_rules_may_apply() -> None:
    dust = Dust()
    assert not dust.wants("http://c.test", "/a")
    assert dust.wants("http://c.test", "/a?b=1")
    assert not dust.wants("https://d.test", "/a")
    assert dust.wants("https://www.d.test", "/a")
    assert dust.wants("https://d.test", "/a")
