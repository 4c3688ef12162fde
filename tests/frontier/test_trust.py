"""Hosts get trust from hosts that had it before, and those with little wait for others, but lose nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from unittest.mock import AsyncMock

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from redis import Redis

from tests.frontier.copying import copied
from tests.frontier.pages import all_done, page, past
from webcrawl.errors import EngineUnavailable
from webcrawl.frontier import Candidate, Frontier
from webcrawl.frontier.ledger import Ledger, owners
from webcrawl.frontier.trust import Discovery, TrustLedger
from webcrawl.policies.trust import FEW, KEPT, SEED, Fairness, give
from webcrawl.worker.budgets import Budgets
from webcrawl.worker.host_records import Dust, HostRecords, KnownPatterns
from webcrawl.worker.link_intake import LinkIntake
from webcrawl.worker.trust import Trust

Frontiers = Callable[..., Frontier]
SEEDED, LINKED, STRANGER = "https://seed.test", "https://linked.test", "https://stranger.test"


def ledger_of(frontier: Frontier) -> TrustLedger:
    return TrustLedger(frontier.engine, frontier.keys)


async def pass_on(ledger: TrustLedger, named: set[str], linked: dict[str, dict[str, bool]]) -> None:
    """Names hosts, lets hosts give, and waits until the gifts have arrived."""
    news = Discovery(named)
    news.linked.update(linked)
    await ledger.pass_on(news)
    await ledger.pass_on(Discovery())


async def order_of(frontier: Frontier, fairness: Fairness) -> list[str]:
    """Leases and settles everything that may be leased, a host and a URL at a time; returns the hosts."""
    await ledger_of(frontier).set_fairness(fairness)
    order: list[str] = []
    while leases := await frontier.lease(1, 1):
        order.append(leases[0].host)
        await frontier.release(leases[0], all_done(leases[0]))
        await past(frontier.engine)
    return order


async def test_trust_begins_at_named_hosts_and_is_divided(frontier: Frontier) -> None:
    ledger = ledger_of(frontier)
    for _ in range(2):
        await pass_on(ledger, {SEEDED}, {})
    assert await ledger.trust(SEEDED) == SEED
    await pass_on(ledger, set(), {SEEDED: {LINKED: False, STRANGER: False}})
    each = give(SEED, 0, 2).each
    assert await ledger.trust(LINKED) == await ledger.trust(STRANGER) == each
    await pass_on(ledger, set(), {LINKED: {STRANGER: False}, "https://unknown.test": {STRANGER: False}})
    assert await ledger.trust(STRANGER) == each + KEPT * each / (1 + FEW)


async def test_hosts_of_the_domain_of_a_seed_are_trusted_too(frontier: Frontier) -> None:
    ledger = ledger_of(frontier)
    await pass_on(ledger, {SEEDED}, {SEEDED: {"https://docs.seed.test": True, LINKED: False}})
    await pass_on(ledger, set(), {LINKED: {"https://a.linked.test": True}})
    assert await ledger.trust("https://docs.seed.test") == SEED
    assert await ledger.trust("https://a.linked.test") < await ledger.trust(LINKED) < SEED


@given(
    st.sets(st.integers(0, 5), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 9), st.sets(st.integers(0, 9), min_size=1)), max_size=12),
)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_trust_is_bounded_by_that_of_the_seeds(
    frontier_of: Frontiers,
    runner: asyncio.Runner,
    valkey: Redis,
    seeds: set[int],
    links: list[tuple[int, set[int]]],
) -> None:
    async def compare() -> None:
        frontier = frontier_of()
        await frontier.clear()
        ledger, hosts = ledger_of(frontier), [f"https://h{n}.test" for n in range(10)]
        await pass_on(ledger, {hosts[n] for n in seeds}, {})
        for source, targets in links:
            await pass_on(ledger, set(), {hosts[source]: {hosts[n]: False for n in targets - {source}}})
        trust = [await ledger.trust(host) for host in hosts]
        standing = await ledger.standing(1.0)
        assert standing.trust == pytest.approx(sum(trust))
        assert sum(trust) <= len(seeds) * SEED / (1 - KEPT) + 1e-9

    runner.run(compare())


async def test_a_host_without_trust_waits_until_others_have_no_urls(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1)
    await frontier.add([page(f"{host}/{n}") for host in (STRANGER, SEEDED, LINKED) for n in range(4)])
    await pass_on(ledger_of(frontier), {SEEDED}, {SEEDED: {LINKED: False}})
    order = await order_of(frontier, Fairness(1e6, 0))
    assert Counter(order) == {SEEDED: 4, LINKED: 4}
    standing = await ledger_of(frontier).standing(1.0)
    assert (standing.better, standing.least, standing.strays) == (0, 1e15, 0)
    assert Fairness(1e6, 0).after(standing, limited=True).most_cost > standing.least
    assert await order_of(frontier, Fairness().after(standing, limited=True)) == [STRANGER] * 4
    assert await frontier.finished()


async def test_strays_get_what_is_left_in_the_order_of_their_costs(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1)
    await frontier.add([page(f"{host}/{n}") for host in (STRANGER, LINKED, SEEDED) for n in range(3)])
    await pass_on(ledger_of(frontier), {SEEDED}, {SEEDED: {LINKED: False}})
    assert await order_of(frontier, Fairness(3.0, 2)) == [SEEDED] * 3 + [LINKED] * 2
    assert (await ledger_of(frontier).standing(1.0)).strays == 2
    assert await order_of(frontier, Fairness(3.0, -1)) == [LINKED] + [STRANGER] * 3


async def test_shards_divide_the_strays_of_a_crawl_among_them(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=4)
    await frontier.add([page(f"https://h{n}.test/{url}") for n in range(12) for url in range(3)])
    ledger = ledger_of(frontier)
    await pass_on(ledger, {SEEDED}, {})
    assert await order_of(frontier, Fairness(50.0, 0)) == []
    for strays in (1, 1, 2, 7):
        before = (await ledger.standing(1.0)).strays
        assert len(await order_of(frontier, Fairness(50.0, strays))) == strays
        assert (await ledger.standing(1.0)).strays == before + strays


async def test_a_host_is_ready_as_soon_as_it_gets_trust(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1)
    await frontier.add([page(f"{LINKED}/1"), page(f"{SEEDED}/1")])
    await pass_on(ledger_of(frontier), {SEEDED}, {})
    assert await order_of(frontier, Fairness(50.0, 0)) == [SEEDED]
    await frontier.add([page(f"{LINKED}/2")])
    await pass_on(ledger_of(frontier), set(), {SEEDED: {LINKED: False}})
    assert await order_of(frontier, Fairness(50.0, 0)) == [LINKED] * 2


async def test_urls_with_a_high_priority_wait_for_no_trust(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1)
    await frontier.add([page(f"{STRANGER}/1", level=0), page(f"{SEEDED}/1")])
    await pass_on(ledger_of(frontier), {SEEDED}, {})
    assert await order_of(frontier, Fairness(50.0, 0)) == [STRANGER, SEEDED]


async def test_nobody_waits_when_no_worker_says_so(frontier_of: Frontiers, valkey: Redis) -> None:
    frontier = frontier_of(shards=1)
    await frontier.add([page(f"{STRANGER}/1")])
    await pass_on(ledger_of(frontier), {SEEDED}, {})
    assert await order_of(frontier, Fairness(50.0, 0)) == []
    valkey.delete(*valkey.keys("*:fairness"))
    assert [lease.host for lease in await frontier.lease(1, 1)] == [STRANGER]


async def test_a_checkpoint_has_the_trust_of_hosts(frontier_of: Frontiers) -> None:
    frontier, restored = frontier_of(), frontier_of("copy", shards=7)
    await pass_on(ledger_of(frontier), {SEEDED}, {SEEDED: {LINKED: False}})
    await copied(frontier, restored)
    for host in (SEEDED, LINKED):
        assert await ledger_of(restored).trust(host) == await ledger_of(frontier).trust(host)
    sums = [(await ledger_of(one).standing(1.0)).trust for one in (frontier, restored)]
    assert sums[0] == sums[1] > SEED


async def test_a_worker_names_seeds_and_passes_on_what_pages_link_to(frontier: Frontier) -> None:
    ledger = ledger_of(frontier)
    trust = Trust(ledger, 1.0, limited=True)
    trust.name(Candidate(SEEDED, "/", 1))
    trust.name(Candidate(LINKED, "/", 2, depth=1, referrer=f"{SEEDED}/a"))
    trust.name(Candidate("https://chosen.test", "/", 3, depth=4))
    trust.name(Candidate(STRANGER, "/", 4, depth=2, referrer=f"{STRANGER}/a"))
    for _ in range(3):
        await trust.send()
    names = (SEEDED, LINKED, "https://chosen.test", STRANGER)
    assert [await ledger.trust(host) for host in names] == [SEED, KEPT * SEED / (1 + FEW), SEED, 0]


async def test_a_worker_that_ends_passes_on_what_it_has_noted_last(frontier: Frontier) -> None:
    ledger = ledger_of(frontier)
    trust = Trust(ledger, 1.0, limited=True)
    trust.name(Candidate(SEEDED, "/", 1))
    trust.link(SEEDED, LINKED)
    await Budgets(Ledger(frontier.engine, frontier.keys), 1.0, trust).send_last()
    assert await ledger.trust(LINKED) == KEPT * SEED / (1 + FEW)


async def test_a_failing_engine_forgets_no_seed(frontier: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ledger_of(frontier)
    trust = Trust(ledger, 1.0, limited=True)
    trust.name(Candidate(SEEDED, "/", 1))
    with monkeypatch.context() as patch:
        patch.setattr(frontier.engine, "run_all", AsyncMock(side_effect=EngineUnavailable("away")))
        with pytest.raises(EngineUnavailable):
            await trust.send()
    await trust.send()
    assert await ledger.trust(SEEDED) == SEED


async def test_seeds_that_a_killed_engine_has_lost_are_trusted_again(frontier: Frontier) -> None:
    trust = Trust(ledger_of(frontier), 1.0, limited=True)
    budgets = Budgets(Ledger(frontier.engine, frontier.keys), 1.0, trust)
    intake = LinkIntake(frontier, Counter(), HostRecords(KnownPatterns(), Dust(), budgets))
    intake.add(page(f"{SEEDED}/"))
    await intake.send(AsyncMock())
    await trust.send()
    await frontier.engine.client.flushall()
    intake.engine_restarted()
    await trust.send()
    assert await ledger_of(frontier).trust(SEEDED) == SEED


async def test_strangers_wait_from_the_first_report_of_a_worker(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1)
    await frontier.add([page(f"{host}/1") for host in (STRANGER, SEEDED)])
    trust = Trust(ledger_of(frontier), 1.0, limited=True)
    trust.name(Candidate(SEEDED, "/", 1))
    await trust.send()
    assert [lease.host for lease in await frontier.lease(2, 1)] == [SEEDED]


def test_addresses_of_a_network_are_of_one_domain() -> None:
    assert owners("http://192.0.2.9:80") == ("192.0.2.9", "192.0.2.0/24")
    assert owners("http://[2001:db8:1:2::9]") == ("[2001:db8:1:2::9]", "2001:db8:1::/48")
