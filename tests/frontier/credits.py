"""Reads the credit of a crawl directly, without the frontier's code, and uses each script of it once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.frontier.pages import page
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Crawl, Frontier, Settlement
from webcrawl.frontier.credit import Purse, queue_again, worths
from webcrawl.frontier.records import LeaseReport
from webcrawl.policies.importance import first_pool


@dataclass
class CreditOfUrl:
    """The record of a URL: credit if it waits, worth if it was fetched."""

    level: int
    rise: int
    left: bool
    fetched: bool
    depth: int
    amount: int


@dataclass
class Credits:
    """The credit of all shards."""

    pools: list[int]
    waiting: int
    urls: dict[int, CreditOfUrl]
    """By number."""
    wallets: int
    transit: int

    @property
    def total(self) -> int:
        records = sum(one.amount for one in self.urls.values() if not one.fetched)
        return sum(self.pools) + records + self.wallets + self.transit

    @classmethod
    def read(cls, valkey: Any, keys: Keys) -> Credits:
        found = cls([], 0, {}, 0, 0)
        for shard in range(keys.shards):
            found._read_shard(valkey, keys, shard)
        return found

    def _read_shard(self, valkey: Any, keys: Keys, shard: int) -> None:
        prefix = keys.queue(shard)[0]
        ledger = {name.decode(): int(value) for name, value in valkey.hgetall(prefix + "credit").items()}
        self.pools.append(ledger.get("pool", first_pool(shard, keys.shards)))
        records = {}
        for key in valkey.scan_iter(prefix + "credit:*"):
            records |= {int(number) + 2**31: _record(value) for number, value in valkey.hgetall(key).items()}
        assert len(records) == ledger.get("records", 0)
        waiting = sum(not one.fetched for one in records.values())
        assert waiting == ledger.get("waiting", 0)
        self.waiting += waiting
        self.urls |= records
        for name in valkey.zrange(prefix + "purses", 0, -1):
            purse = valkey.hgetall(f"{prefix}purse:{name.decode()}")
            self.wallets += int(purse.get(b"wallet", 0))
            for line in purse.get(b"transit", b"").decode().splitlines():
                to, number, credit = map(int, line.split())
                got = valkey.get(f"{keys.queue(to)[0]}got:{name.decode()}") or b"0"
                if number > int(got.split()[0]):
                    self.transit += credit


def _record(value: bytes) -> CreditOfUrl:
    state = value[0]
    return CreditOfUrl(
        state % 8,
        state // 8 % 8 - 2,
        bool(state & 64),
        bool(state & 128),
        value[1],
        # behind the credit of one in SAMPLE is its time
        int.from_bytes(value[2:-7] if len(value) > 8 else value[2:], "big"),
    )


async def use_importance(frontier: Frontier, hosts: Sequence[str]) -> None:
    """A page gives its credit to a link on each host, and the purse of a worker that is gone is emptied."""
    keys = Keys("worth", 16)
    purse, links = Purse(frontier.engine, keys), [f"{host}/linked" for host in hosts]
    frontier = replace(frontier, keys=keys, purse=purse.name)
    await Crawl(frontier.engine, keys, "w1").configure(0, "breadth-first", importance=True)
    await frontier.add([page(f"{hosts[0]}/start")])
    [lease] = await frontier.lease(1, 1, [keys.shard(hosts[0])])
    better = [page(link, level=5, rise=-2) for link in links]
    await frontier.add(better)
    given: list[int] = []
    report = LeaseReport(lease, [Settlement(lease.urls[0].index, links=links)], pause=0.0)
    await frontier.settle_all([report], lambda *reply: given.extend(reply[2]))
    purse.owe(hosts[0], given[0], links)
    assert len(await purse.settle(range(16))) <= len(links)
    assert None not in await worths(frontier.engine, keys, links)
    await queue_again(frontier.engine, keys, [replace(one, level=4, rise=-1) for one in better])
    assert await purse.collect(range(16), 0.0) > 0
