"""Uses every script of addresses, borrowed turns, budgets and trust once."""

from __future__ import annotations

import asyncio

from webcrawl.config import AddressConfig
from webcrawl.frontier import Frontier
from webcrawl.frontier.addresses import EngineAddressTurns
from webcrawl.frontier.borrowed_turns import BorrowedTurns
from webcrawl.frontier.ledger import BudgetEntry, Ledger
from webcrawl.frontier.trust import Discovery, TrustLedger
from webcrawl.hosts.address_turn import Ask
from webcrawl.policies.budgets import Slowdown, Spending
from webcrawl.policies.trust import SEED, Fairness


async def use_turns_and_budgets(frontier: Frontier) -> None:
    """Hosts may have been leased, but none has answered."""
    addresses = EngineAddressTurns(
        frontier.engine, frontier.keys, "w1", AddressConfig(1, 0.1), 9.0, asyncio.Event()
    )
    grant, _ = await addresses.ask(Ask("192.0.2.1", 1.0, 0.5, "", 0.0, 1, 0))
    assert (grant.wait, grant.connections) == (0.0, 1)
    borrowed = BorrowedTurns(frontier.engine, frontier.keys)
    assert (await borrowed.borrow("http://else.test", "r1", 9.0)).state == "taken"
    await borrowed.repay("http://else.test", "r1", 0.0)
    ledger = Ledger(frontier.engine, frontier.keys)
    assert await ledger.add({"a.test": BudgetEntry(8, {"b.test"})}) == {"a.test": Spending(8, 1)}
    # hosts that never answered do not count
    assert await ledger.slow_down(range(frontier.keys.shards), Slowdown(), 1.0) == (0, 0, 0)
    trust = TrustLedger(frontier.engine, frontier.keys)
    await trust.pass_on(Discovery({"http://else.test"}))
    assert (await trust.standing(1.0)).trust == SEED
    await trust.set_fairness(Fairness())
    # not all shards: what other workers have counted is asked for
    assert await ledger.slow_down([0], Slowdown(), 1.0) == (0, 0, 0)
