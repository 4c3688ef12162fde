"""Hosts over their budgets: what the ledger knows, and when they are leased."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.frontier.copying import copied
from tests.frontier.pages import all_done, page, past
from webcrawl.frontier import Frontier, Lease, LeaseReport
from webcrawl.frontier.ledger import BudgetEntry, Ledger
from webcrawl.policies.budgets import FIRST, MOST_DOMAINS, Slowdown, Spending, slowdown
from webcrawl.worker.budgets import Budgets

TRAP, OTHER = "https://a.trap.test", "https://b.trap.test"
HONEST = "https://honest.test"


async def slow_down(frontier: Frontier, factor: float, delay: float = 1000.0) -> tuple[int, int, float]:
    ledger = Ledger(frontier.engine, frontier.keys)
    return await ledger.slow_down(
        range(frontier.keys.shards), Slowdown(factor, 1.0 if factor > 1 else 0.0), delay
    )


async def leased(frontier: Frontier) -> dict[str, Lease]:
    return {lease.host: lease for lease in await frontier.lease(10, 5)}


async def release(frontier: Frontier, lease: Lease, over: str | None = None) -> None:
    await frontier.settle_all([LeaseReport(lease, all_done(lease), pause=0, over=over)])
    await past(frontier.engine)


async def sink(frontier: Frontier, *hosts: str) -> None:
    """Leases hosts with URLs once, and lets those of the trap sink."""
    await frontier.add([page(f"{host}/{n}") for host in hosts for n in range(12)])
    for host, lease in (await leased(frontier)).items():
        await release(frontier, lease, "trap.test 1" if host.endswith(".trap.test") else None)


async def let_the_trap_wait(frontier: Frontier) -> None:
    await sink(frontier, TRAP, HONEST)
    await slow_down(frontier, 4.0)
    for _ in range(2):
        for lease in (await leased(frontier)).values():
            await release(frontier, lease)
    assert TRAP not in await leased(frontier)


async def test_the_ledger_adds_up_over_workers(frontier_of: Callable[..., Frontier]) -> None:
    ledgers = [Ledger(one.engine, one.keys) for one in (frontier_of(), frontier_of(worker="w2"))]
    for n, ledger in enumerate(ledgers):
        found = await ledger.add(
            {"a.test": BudgetEntry(8, {"b.test", f"c{n}.test"}), "b.test": BudgetEntry()}
        )
    assert found == {"a.test": Spending(16, 3), "b.test": Spending()}
    many = BudgetEntry(0, {f"d{n}.test" for n in range(100)})
    assert await ledgers[0].add({"a.test": many}) == {"a.test": Spending(16, MOST_DOMAINS)}
    assert await ledgers[1].add({"a.test": BudgetEntry(1)}) == {"a.test": Spending(17, MOST_DOMAINS)}


async def test_a_host_over_its_budget_comes_after_the_others(frontier: Frontier) -> None:
    await sink(frontier, TRAP, HONEST)
    await frontier.add([page(f"{HONEST}/low", level=6)])
    assert [lease.host for lease in await frontier.lease(1, 1, [frontier.keys.shard(HONEST)])] == [HONEST]
    both = await leased(frontier)
    assert both[TRAP].over == "trap.test 1"
    assert len(both[TRAP].urls) == 5


async def test_the_hosts_of_a_domain_that_sank_take_turns(frontier: Frontier) -> None:
    await sink(frontier, TRAP, OTHER, HONEST)
    await slow_down(frontier, 4.0)
    for _ in range(3):
        found = await leased(frontier)
        for lease in found.values():
            await release(frontier, lease)
    # the next turns are 4,000 seconds away
    assert sum((await slow_down(frontier, 4.0))[1:]) > 0
    assert not any(host.endswith(".trap.test") for host in found)
    # a better URL does not help, because all that its domain has is worth less; but a priority does
    await frontier.add([page(f"{TRAP}/better", level=1)])
    assert not await leased(frontier)
    await frontier.add([page(f"{TRAP}/first", level=0)])
    (lease,) = (await leased(frontier)).values()
    assert lease.urls[0].path == "/first"
    await release(frontier, lease)
    await slow_down(frontier, 1.0)
    assert set(await leased(frontier)) == {TRAP, OTHER}


async def test_workers_count_the_hosts_of_all_shards(
    frontier_of: Callable[..., Frontier], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webcrawl.frontier.ledger._SHARE_SECONDS", 0.0)
    frontier = frontier_of(shards=4)
    await sink(frontier, TRAP, HONEST)
    await leased(frontier)
    whole = await slow_down(frontier, 4.0, delay=1.0)
    assert whole[:2] == (1, 1)
    workers = [Ledger(frontier.engine, frontier.keys) for _ in range(2)]
    for _ in range(2):
        found = [
            await worker.slow_down(shards, Slowdown(2.0, 1.0), 1.0)
            for worker, shards in zip(workers, ([0, 1], [2, 3]), strict=True)
        ]
    assert found == [whole, whole]
    without_shards = Ledger(frontier.engine, frontier.keys)
    assert await without_shards.slow_down([], Slowdown(), 1.0) == whole, (
        "of more workers than shards, some have none"
    )


async def test_a_domain_is_one_owner_wherever_its_hosts_are(frontier_of: Callable[..., Frontier]) -> None:
    frontier = frontier_of(shards=2)
    hosts = [f"https://{n}.trap.test" for n in range(40)]
    alone = next(host for host in hosts if frontier.keys.shard(host) == 0)
    wide = [host for host in hosts if frontier.keys.shard(host) == 1][:3]
    await sink(frontier, alone, *wide)
    for lease in (await leased(frontier)).values():
        await release(frontier, lease)
    ledger = Ledger(frontier.engine, frontier.keys)
    counts = [await ledger.slow_down([0, 1], Slowdown(), 1.0) for _ in range(2)]
    assert counts == [(0, 1, 0.5), (0, 0, 0.5)], "the second look knows that the domain is wide"
    assert slowdown(*counts[1]).at_once == 0.0, "nobody else waits"


@pytest.mark.parametrize(
    ("wide", "own", "other"),
    [
        ("trap.test", "large.trap.test", "largetrap.test"),
        ("127.1.2.0/24", "127.1.2.200", "127.1.20.2"),
    ],
)
async def test_a_large_host_of_a_wide_domain_is_nobody_else(
    frontier_of: Callable[..., Frontier], wide: str, own: str, other: str
) -> None:
    frontier = frontier_of(shards=1)
    reports = {"a.wide.test": wide, "b.wide.test": wide, own: own, other: other}
    await frontier.add([page(f"http://{host}/{n}") for host in reports for n in range(12)])
    for _ in range(2):
        for host, lease in (await leased(frontier)).items():
            await release(frontier, lease, f"{reports[host.partition('://')[2]]} 1")
    ledger = Ledger(frontier.engine, frontier.keys)
    counts = [await ledger.slow_down([0], Slowdown(), 1.0) for _ in range(2)]
    assert counts == [(0, 2, 1.0), (0, 1, 1.0)], (
        "the second look knows the wide domain; only one owner is another"
    )


async def test_the_hosts_of_a_domain_take_turns_when_all_hosts_have_sunk(
    frontier_of: Callable[..., Frontier],
) -> None:
    frontier = frontier_of(shards=1)
    await sink(frontier, TRAP, OTHER)
    ledger, turns = Ledger(frontier.engine, frontier.keys), 0
    for _ in range(3):
        await ledger.slow_down([0], Slowdown(0.0, 1.0), 1000.0)
        for lease in (await leased(frontier)).values():
            turns += 1
            await release(frontier, lease)
    assert turns == 1


async def test_a_host_that_sank_gets_one_url_for_each_turn(frontier: Frontier) -> None:
    await sink(frontier, TRAP)
    await slow_down(frontier, 4.0)
    (lease,) = (await leased(frontier)).values()
    assert len(lease.urls) == 1
    assert await frontier.acknowledge(lease, all_done(lease), more=5) == []


async def test_a_host_within_its_budget_again_is_like_others(frontier: Frontier) -> None:
    await sink(frontier, TRAP)
    await slow_down(frontier, 4.0)
    (lease,) = (await leased(frontier)).values()
    await release(frontier, lease, "")
    (lease,) = (await leased(frontier)).values()
    assert (lease.over, len(lease.urls)) == ("", 5)


async def test_a_host_within_its_budget_keeps_its_pace_whatever_its_urls_are(frontier: Frontier) -> None:
    await frontier.add([page(f"{HONEST}/{n}", level=7) for n in range(9)])
    await slow_down(frontier, 4.0)
    for _ in range(2):
        (lease,) = (await leased(frontier)).values()
        assert len(lease.urls) > 1
        await release(frontier, lease)


async def test_nothing_is_slow_when_no_worker_says_so_any_more(frontier: Frontier) -> None:
    await let_the_trap_wait(frontier)
    for shard in range(frontier.keys.shards):
        await frontier.engine.client.delete(frontier.keys.queue(shard)[0] + "slowdown")
    assert TRAP in await leased(frontier)


async def test_hosts_in_a_long_pause_are_not_among_those_with_better_urls(frontier: Frontier) -> None:
    await frontier.block_until("https://h0.test", 3600.0)
    await frontier.add([page(f"https://h{n}.test/1") for n in range(3)])
    # those that were never asked may never answer
    assert await slow_down(frontier, 1.0, delay=1.0) == (0, 0, 0)
    await leased(frontier)
    assert await slow_down(frontier, 1.0, delay=1.0) == (2, 0, 0)


async def test_owners_wait_no_longer_than_gaps_are_now(frontier: Frontier) -> None:
    await let_the_trap_wait(frontier)
    # most others have sunk too
    await slow_down(frontier, 1.01, delay=0.001)
    await past(frontier.engine)
    assert TRAP in await leased(frontier)


async def test_a_worker_tells_of_budgets(frontier: Frontier) -> None:
    budgets = Budgets(Ledger(frontier.engine, frontier.keys), 1.0)
    changed: list[str] = []
    budgets.open(TRAP, answered=False)
    budgets.open(TRAP, answered=True)
    for _ in range(FIRST - 2):
        budgets.spend(TRAP, None)
    links = [f"{TRAP}/1", f"{HONEST}/1", f"{HONEST}/2", "https://trap.test/"]
    budgets.link(TRAP, links)
    assert not budgets.over(TRAP)
    budgets.spend(TRAP, None)
    # the robots.txt of a name counts for its domain
    assert budgets.over(TRAP) == "trap.test 1"
    budgets.spend(TRAP, None)
    assert budgets.over(TRAP) == "a.trap.test 1"
    await budgets.send_if_due(range(frontier.keys.shards), changed.append)
    assert changed == ["a.trap.test", "trap.test"]
    assert budgets.over(TRAP) == "a.trap.test 1"
    assert budgets.over(OTHER) == "trap.test 1"
    found = await Ledger(frontier.engine, frontier.keys).add(
        {"honest.test": BudgetEntry(), "trap.test": BudgetEntry()}
    )
    assert found == {"honest.test": Spending(0, 1), "trap.test": Spending(8 * FIRST + 8, 0)}


async def test_links_of_a_domain_to_a_host_are_sent_once(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webcrawl.worker.budgets._EVERY_SECONDS", 0.0)
    monkeypatch.setattr("webcrawl.worker.budgets._MOST_LINKS", 3)
    sent: dict[str, set[str]] = {}

    class Observed(Ledger):
        async def add(self, entries: Mapping[str, BudgetEntry]) -> dict[str, Spending]:
            sent.update({owner: entry.domains for owner, entry in entries.items()})
            return await Ledger.add(self, entries)

    budgets = Budgets(Observed(frontier.engine, frontier.keys), 1.0)
    one, two, three, four = (f"https://{name}.test" for name in ("one", "two", "three", "four"))
    for source, links, new in (
        (TRAP, [f"{one}/", f"{one}/2", f"{TRAP}/3"], {"one.test"}),
        (OTHER, [f"{one}/4", f"{two}/"], {"two.test"}),
        (TRAP, [f"{two}/5", f"{OTHER}/"], set()),
        # now the links of the trap are forgotten
        (HONEST, [f"{three}/", f"{four}/"], {"three.test", "four.test"}),
        (TRAP, [f"{one}/"], {"one.test"}),
    ):
        sent.clear()
        budgets.link(source, links)
        await budgets.send_if_due(range(frontier.keys.shards), lambda _: None)
        domain = "honest.test" if source == HONEST else "trap.test"
        assert sent == {owner: {domain} for owner in new}


async def test_a_checkpoint_has_budgets_and_who_is_over(frontier_of: Callable[..., Frontier]) -> None:
    frontier = frontier_of()
    await sink(frontier, TRAP, HONEST)
    await Ledger(frontier.engine, frontier.keys).add({"trap.test": BudgetEntry(9, {"b.test"})})
    restored = frontier_of("copy", shards=7)
    await copied(frontier, restored)
    assert (await leased(restored))[TRAP].over == "trap.test 1"
    ledger = Ledger(restored.engine, restored.keys)
    assert await ledger.add({"trap.test": BudgetEntry()}) == {"trap.test": Spending(9, 1)}
