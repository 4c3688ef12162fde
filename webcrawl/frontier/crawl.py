"""The record of a crawl in the engine, shared by all its workers: format, state, totals, scope and runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import CONTINUED_FORMATS, CRAWLS, FORMAT, Keys
from webcrawl.engine.scripts import script_call
from webcrawl.engine.server_loads import ServerLoads
from webcrawl.errors import ConfigurationError
from webcrawl.frontier.host_costs import HostCosts
from webcrawl.frontier.operations import BATCH
from webcrawl.frontier.records import HostLimits
from webcrawl.frontier.workers import WorkerRegistry
from webcrawl.policies.importance import first_pool


@dataclass(slots=True)
class Crawl:
    """One crawl, as one of its workers sees it."""

    engine: Engine
    keys: Keys
    worker: str
    worker_seconds: float = 12.0
    """Seconds for which a worker counts as alive after a heartbeat."""
    of_clients: bool = False
    """Whether its URLs are in the queues of clients (webcrawl.urlfrontier), and no worker crawls them."""
    workers: WorkerRegistry = field(init=False)
    sets: SharedSets = field(init=False)
    costs: HostCosts = field(init=False)
    loads: ServerLoads = field(init=False)

    def __post_init__(self) -> None:
        self.workers = WorkerRegistry(self.engine, self.keys, self.worker, self.worker_seconds)
        self.sets = SharedSets(self.engine, self.keys)
        self.loads = ServerLoads(self.engine)
        self.costs = HostCosts(self.engine, self.keys, self.worker, self.worker_seconds)

    async def begin(self, restoring: str = "") -> bool:
        """Creates or continues the crawl; returns True if it existed. `restoring` names the process that restores it.

        Raises ConfigurationError if a crawl of the engine has another number of shards, because a host would be
        searched in the wrong shard; or another POLITENESS_UNIT, because crawls would not share a host's politeness.
        Also raises it if the data has another format, if the crawl was restored only in part, or if workers continue
        a crawl of clients or the other way round.
        """
        if await self.exists():
            await self._check_info()
        else:
            # before the crawl is listed, so that a listed crawl always has its format
            about: list[str | int] = ["format", FORMAT]
            about += ["restoring", restoring] if restoring else []
            about += ["clients", 1] if self.of_clients else []
            await self.engine.change(self.keys.own("info"), "HSET", *about)
        call = script_call("register_crawl", [CRAWLS], crawl=self.keys.crawl, layout=self.keys.layout)
        reply = await self.engine.run(call)
        _check_layout(self.keys, reply.crawl.decode(), self.keys.with_layout(reply.layout))
        return not reply.new

    async def _check_info(self) -> None:
        """Sets the data format of an older crawl to the present one, so that older versions refuse the crawl.

        Raises ConfigurationError if the format is unknown, if the crawl was restored only in part, or if it is one of
        clients and not of workers, or the other way round.
        """
        info = await self.engine.client.hmget(self.keys.own("info"), "format", "restoring", "clients")
        version, restoring, of_clients = info
        if restoring:
            raise ConfigurationError(
                f"crawl {self.keys.crawl!r} is only partly restored by {restoring.decode()}: wait until that is done, "
                "or run scrapy restore again"
            )
        if bool(of_clients) != self.of_clients:
            owners = "clients of scrapy urlfrontier" if of_clients else "workers"
            raise ConfigurationError(f"crawl {self.keys.crawl!r} is one of {owners}: choose another crawl ID")
        data_format = version.decode() if version else "1"
        if int(data_format) not in CONTINUED_FORMATS:
            raise ConfigurationError(
                f"crawl {self.keys.crawl!r} was begun by another version of webcrawl, with data format {data_format}; "
                f"this version has {FORMAT}: finish it with that version, choose another CRAWL_ID, or clear it with "
                "SCHEDULER_FLUSH_ON_START=True"
            )
        if int(data_format) != FORMAT:
            await self.engine.change(self.keys.own("info"), "HSET", "format", FORMAT)

    async def restoring(self) -> bool:
        """Whether the crawl is being restored, or was restored only in part."""
        return bool(await self.engine.client.hexists(self.keys.own("info"), "restoring"))

    async def has_clients(self) -> bool:
        """Whether the crawl is one of clients (webcrawl.urlfrontier), and not of workers."""
        return bool(await self.engine.client.hexists(self.keys.own("info"), "clients"))

    async def exists(self) -> bool:
        """Whether the crawl was begun at any time."""
        return await self.begun_with() is not None

    async def begun_with(self) -> Keys | None:
        """Returns the keys with the shards and the unit with which the crawl was begun; None if it never was."""
        begun = await self.engine.client.hget(CRAWLS, self.keys.crawl)
        return None if begun is None else self.keys.with_layout(begun)

    async def forget(self) -> None:
        """Removes a cleared crawl from the engine's list of crawls."""
        await self.engine.change(CRAWLS, "HDEL", self.keys.crawl)

    async def configure(
        self, hot_urls: int, order: str, *, importance: bool = False, traffic: str = ""
    ) -> None:
        """Sets the longest queue in the engine (0: any length), the order of queues, and whether URLs have credit.

        `traffic`: the shares of the classes of fetches as JSON; "" without TRAFFIC. With it, new entries are queued by
        class.
        """
        shards = self.keys.shards
        for shard in range(shards):
            key = f"{self.keys.queue(shard)[0]}conf"
            fields: list[str | int] = ["hot", hot_urls, "order", order]
            wanted = {"credit": first_pool(shard, shards) if importance else "", "traffic": traffic}
            for name, value in wanted.items():
                if value == "":
                    await self.engine.change(key, "HDEL", name)
                else:
                    fields += [name, value]
            await self.engine.change(key, "HSET", *fields)

    async def traffic(self) -> dict[str, float]:
        """Returns the share of each class of fetches (TRAFFIC), from 0 to 1; empty without TRAFFIC."""
        text = await self.engine.client.hget(f"{self.keys.queue(0)[0]}conf", "traffic")
        parts = {name: part for name, part in json.loads(text or "{}").items() if not isinstance(part, dict)}
        return {name: part / sum(parts.values()) for name, part in parts.items()}

    async def limits_changed(self, limits: HostLimits, rules: str = "") -> bool:
        """Stores the default limits of hosts, and a digest of the rules with others; returns True if they changed."""
        info, text = self.keys.own("info"), f"{limits.encoded()} {rules}".strip()
        before = await self.engine.client.hget(info, "limits")
        await self.engine.change(info, "HSET", "limits", text)
        return before is not None and before.decode() != text

    async def tails(self) -> str | None:
        """Returns the store's folder with the crawl's segments; None if nothing was ever spilled."""
        folder = await self.engine.client.hget(self.keys.own("info"), "tails")
        return None if folder is None else str(folder.decode())

    async def set_tails(self, folder: str) -> str:
        """Sets the folder for segments unless another worker did; returns the folder in use."""
        await self.engine.change(self.keys.own("info"), "HSETNX", "tails", folder)
        return await self.tails() or folder

    async def pause(self) -> None:
        """Pauses the crawl until `resume`: with their next heartbeat, workers release their hosts."""
        await self.engine.change(self.keys.own("info"), "HSET", "paused", 1)

    async def resume(self) -> None:
        await self.engine.change(self.keys.own("info"), "HDEL", "paused")

    async def paused(self) -> bool:
        return bool(await self.engine.client.hexists(self.keys.own("info"), "paused"))

    async def totals(self) -> dict[str, int]:
        """Returns the totals of all workers and runs: counter -> number."""
        raw = await self.engine.client.hgetall(self.keys.own("totals"))
        return {name.decode(): int(value) for name, value in raw.items()}

    async def count_hosts(self, answered: Iterable[str], unreachable: Iterable[str] = ()) -> None:
        """Counts hosts that answered and hosts that could not be reached, each host once (HyperLogLogs, within 1%)."""
        for name, hosts in (("hosts", list(answered)), ("unreachable", list(unreachable))):
            for start in range(0, len(hosts), BATCH):
                await self.engine.run(
                    script_call("count_hosts", [self.keys.own(name)], hosts=hosts[start : start + BATCH])
                )

    async def host_count(self) -> int:
        """Returns the number of hosts that answered."""
        return int(await self.engine.client.pfcount(self.keys.own("hosts")))

    async def host_counts(self) -> tuple[int, int]:
        """Returns the number of hosts that answered, and of hosts that could not be reached and never answered."""
        answered, failed = await self.host_count(), self.keys.own("unreachable")
        if not await self.engine.client.pfcount(failed):
            return answered, 0
        asked = int(await self.engine.client.pfcount(self.keys.own("hosts"), failed))
        return answered, max(0, asked - answered)

    async def set_scope_kind(self, kind: str) -> None:
        """Stores the kind of scope whose keys are in the set "scope"."""
        await self.engine.change(self.keys.own("info"), "HSET", "scope", kind)

    async def scope_kind(self) -> str | None:
        kind = await self.engine.client.hget(self.keys.own("info"), "scope")
        return None if kind is None else str(kind.decode())


@dataclass(frozen=True, slots=True)
class SharedSets:
    """The sets "seeds" ("hostname port" of each seed) and "scope" (scope keys that seeds and redirects opened)."""

    engine: Engine
    keys: Keys

    async def add(self, name: str, members: Iterable[str]) -> None:
        if members := list(members):
            await self.engine.change(self.keys.own(name), "SADD", *members)

    async def contains(self, name: str, member: str) -> bool:
        return bool(await self.engine.client.sismember(self.keys.own(name), member))

    async def members(self, name: str) -> set[str]:
        return {member.decode() for member in await self.engine.client.smembers(self.keys.own(name))}

    async def first_addresses(
        self, seed: str, addresses: Sequence[str], *, remember: bool = True
    ) -> Sequence[str]:
        """Returns the inner addresses of a seed's host in its first DNS answer: `addresses`, if none is known yet.

        `seed`: "hostname port". `remember`: `addresses` count as the first answer from now on, for all workers.
        """
        key = self.keys.own("seed_addresses")
        if remember and await self.engine.change(key, "HSETNX", seed, " ".join(addresses)):
            return addresses
        known = await self.engine.client.hget(key, seed)
        return addresses if known is None else known.decode().split()


def _check_layout(keys: Keys, crawl: str, begun: Keys) -> None:
    """Raises ConfigurationError if a crawl of the engine has other shards or another POLITENESS_UNIT."""
    if begun.shards != keys.shards:
        was = f"FRONTIER_SHARDS is {keys.shards}, but crawl {crawl!r} of this engine was begun with {begun.shards}"
        value: int | str = begun.shards
    elif begun.unit != keys.unit:
        was = (
            f"POLITENESS_UNIT is {keys.unit}, but crawl {crawl!r} of this engine was begun with {begun.unit}"
        )
        value = begun.unit
    else:
        return
    raise ConfigurationError(
        f"{was}. All crawls of an engine share each host's politeness, so set it to {value}, use another engine "
        "(DATA_DIR, REDIS_URL), or clear its crawls, each with SCHEDULER_FLUSH_ON_START"
    )


@dataclass(frozen=True, slots=True)
class CrawlRun:
    """One run of a crawl: its spider, when it began (seconds since 1970), and its settings as text without secrets.

    `seeds` are the first seeds, without passwords, of `seed_count`; `scope` is their scope. A spider that does not
    begin with seeds, or did not yet, has none.
    """

    spider: str
    began: float
    settings: dict[str, str]
    seeds: list[str] = field(default_factory=list)
    seed_count: int = 0
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one crawl, of which the engine keeps the latest."""

    engine: Engine
    keys: Keys

    async def begin(self, run: CrawlRun) -> None:
        """Stores a run that begins."""
        await self.engine.change(self.keys.own("run"), "SET", json.dumps(asdict(run)))

    async def latest(self) -> CrawlRun | None:
        """Returns the latest run; None if there was none."""
        text = await self.engine.client.get(self.keys.own("run"))
        if text is None:
            return None
        known = CrawlRun.__dataclass_fields__  # a newer version may have stored more
        return CrawlRun(**{name: value for name, value in json.loads(text).items() if name in known})


async def note_end(crawl: Crawl, reason: str) -> None:
    """Stores why a run of a worker ended, as in summary.json, and when, even if the engine is full."""
    await crawl.engine.run(script_call("note_end", [crawl.keys.own("info")], reason=reason))


async def last_end(crawl: Crawl) -> str | None:
    """Returns why the last run of a worker ended; None if none has ended."""
    return (await last_end_and_time(crawl))[0]


async def last_end_and_time(crawl: Crawl) -> tuple[str | None, float | None]:
    """Returns why the last run of a worker ended, and when in seconds since 1970; None for what is not known."""
    reason, ms = await crawl.engine.client.hmget(crawl.keys.own("info"), "ended", "ended_ms")
    return None if reason is None else str(reason.decode()), None if ms is None else int(ms) / 1000
