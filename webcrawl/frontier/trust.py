"""The trust of hosts in the engine: what hosts give to each other, and which hosts have to wait for others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.replication import Command
from webcrawl.engine.scripts import Call, script_call
from webcrawl.frontier.operations import BATCH, milliseconds
from webcrawl.policies.trust import FEW, KEPT, SEED, Fairness, Standing

_SOON_SECONDS = 10.0
_SOON_GAPS = 10
"""A host counts if it may be asked within so many seconds, or within so many usual gaps."""
_HOLDS_MS = 60_000
"""How long hosts wait if no worker says so again."""


@dataclass(slots=True)
class Gains:
    """What one host got from others: trust, and the trust that it has at least."""

    amount: float = 0.0
    least: float = 0.0


@dataclass(slots=True)
class Discovery:
    """What a worker news: hosts that are named, and the hosts to which hosts link for the first time.

    `linked`: host -> hosts; True if a host is of the same registered domain.
    """

    named: set[str] = field(default_factory=set)
    linked: defaultdict[str, dict[str, bool]] = field(default_factory=lambda: defaultdict(dict))


@dataclass(slots=True)
class TrustLedger:
    """The trust of the hosts of one crawl. The engine has the trust of a host in its shard."""

    engine: Engine
    keys: Keys
    _gains: defaultdict[str, Gains] = field(default_factory=lambda: defaultdict(Gains), init=False)
    """Hosts that get something with the next call."""
    _late: Discovery = field(default_factory=Discovery, init=False)
    """News of hosts whose records were in the store, for the next call."""
    _turn: int = field(default=0, init=False)
    """The shard that is first to have one of the strays that shards do not share in equal parts."""

    async def pass_on(self, news: Discovery) -> None:
        """Names hosts, takes what hosts give to others, and gives to them what was taken before.

        A gift whose reply was lost is lost: trust only becomes less. What a host whose record is in the store gives or
        gets is kept until its record is back (webcrawl.frontier.cold_hosts).
        """
        gains, self._gains = self._gains, defaultdict(Gains)
        news, self._late = _both(news, self._late), Discovery()
        givers = self.keys.by_shard({*news.named, *news.linked}, str)
        getters = self.keys.by_shard(gains, str)
        calls, batches = list[Call](), list[tuple[list[str], list[str]]]()
        for shard in sorted({*givers, *getters}):
            giving, getting = givers.get(shard, []), getters.get(shard, [])
            for start in range(0, max(len(giving), len(getting)), BATCH):
                some, others = giving[start : start + BATCH], getting[start : start + BATCH]
                calls.append(self._call(shard, news, some, {host: gains[host] for host in others}))
                batches.append((some, others))
        for (hosts, getting), reply in zip(batches, await self.engine.run_all(calls), strict=True):
            asleep = {host.decode() for host in reply.asleep}
            self._keep(
                asleep.intersection(hosts), news, {host: gains[host] for host in asleep.intersection(getting)}
            )
            for host, (each, amount) in zip(hosts, reply.gifts, strict=True):
                targets = {} if host in asleep else news.linked.get(host, {})
                for target, is_related in targets.items():
                    got = self._gains[target]
                    got.amount += float(each)
                    if is_related and float(amount) >= SEED:
                        got.least = SEED

    def _keep(self, givers: set[str], news: Discovery, gains: Mapping[str, Gains]) -> None:
        """Keeps what these hosts give, and what hosts get, for the next call."""
        self._late.named |= givers & news.named
        for host in givers & news.linked.keys():
            self._late.linked[host] = news.linked[host]
        for host, gain in gains.items():
            self._gains[host].amount += gain.amount
            self._gains[host].least = max(self._gains[host].least, gain.least)

    def _call(self, shard: int, news: Discovery, givers: list[str], gains: Mapping[str, Gains]) -> Call:
        return script_call(
            "pass_trust",
            self.keys.queue(shard),
            kept=KEPT,
            few=FEW,
            gift={
                "host": givers,
                "seed": [SEED if host in news.named else 0 for host in givers],
                "hosts": [len(news.linked.get(host, ())) for host in givers],
            },
            gain={
                "host": list(gains),
                "gained": [gain.amount for gain in gains.values()],
                "least": [gain.least for gain in gains.values()],
            },
        )

    async def standing(self, delay: float) -> Standing:
        """Returns the standing of the crawl. `delay`: the usual seconds between two requests to a host."""
        soon_ms = milliseconds(max(_SOON_SECONDS, _SOON_GAPS * delay))
        calls = [
            script_call("count_trust", self.keys.queue(shard), soon_ms=soon_ms)
            for shard in range(self.keys.shards)
        ]
        rows = (
            Standing(row.better, row.pages, row.strayed, float(row.trusted), float(row.least))
            for row in await self.engine.run_all(calls)
        )
        return reduce(Standing.plus, rows, Standing())

    async def set_fairness(self, fairness: Fairness) -> None:
        """Sets, for a minute, which hosts have to wait. Shards take turns to have the rest of the strays."""
        shards, commands = self.keys.shards, list[Command]()
        each, rest = divmod(fairness.strays, shards) if fairness.strays > 0 else (fairness.strays, 0)
        for shard in range(shards):
            strays = each + ((shard - self._turn) % shards < rest)
            key = f"{self.keys.queue(shard)[0]}fairness"
            commands.append(Command(key, ("SET", key, f"{fairness.most_cost!r} {strays}", "PX", _HOLDS_MS)))
        self._turn = (self._turn + rest) % shards
        await self.engine.change_all(commands)

    async def trust(self, host: str) -> float:
        """Returns the trust of a host, which is 0 while its record is in the store; the record is asked for."""
        gift_to_nobody = self._call(self.keys.shard(host), Discovery(), [host], {})
        ((_, amount),) = (await self.engine.run(gift_to_nobody)).gifts
        return float(amount)


def _both(news: Discovery, late: Discovery) -> Discovery:
    """Returns news and late news together."""
    if not late.named and not late.linked:
        return news
    both = Discovery(news.named | late.named)
    for linked in (late.linked, news.linked):
        for host, hosts in linked.items():
            both.linked[host] |= hosts
    return both
