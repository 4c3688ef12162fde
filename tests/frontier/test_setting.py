"""Levels and dates that an operator sets, and URLs that are dropped, beside a crawl that goes on."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from redis import Redis

from tests.frontier import copying
from tests.frontier.clock import Clock, ClockedEngine
from tests.frontier.contents import Contents
from tests.frontier.copying import HOSTS, NEVER, VERBS, Crawling, Step, drained, exporter_of
from tests.frontier.credits import Credits
from tests.frontier.listed import SETTABLE, change, listed, set_urls, tails_of
from tests.frontier.losing import Losing
from tests.frontier.pages import hash_of, page, urls_of
from tests.frontier.spilling import HOST, fetch, numbered, serve, spilling
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Candidate, Crawl, Frontier, Lease, Settlement
from webcrawl.frontier.credit import queue_again
from webcrawl.frontier.listing import setting
from webcrawl.frontier.tails import Tails
from webcrawl.policies.importance import TOTAL

Frontiers = Callable[..., Frontier]

SHARDS = 2
KEYS = Keys("crawl", SHARDS)
FEW_HOSTS = HOSTS[:3]
HOUR_MS = 3_600_000

numbers = st.integers(0, 60)
batches = st.lists(st.tuples(st.sampled_from(FEW_HOSTS), numbers), min_size=1, max_size=25)
levels = st.sampled_from([0, 2, 3, 3, 5, 7, 12, -5, 2**53, -(2**53)])
actions = st.sampled_from(["level", "level", "level", "drop", "later", "now"])


class SettingMachine(RuleBasedStateMachine):
    """A crawl with short hot lists, or with credit, whose URLs are changed between all other verbs."""

    def __init__(self, url: str, hot_urls: int, order: str, *, importance: bool) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.runner = asyncio.Runner()
        self.engine = ClockedEngine(url)
        self.run(self.engine.check())
        self.valkey = Redis.from_url(url)
        self.valkey.flushall()
        self.clock = Clock(self.valkey, [f"{{s{shard}}}" for shard in range(SHARDS)])
        self.importance = importance
        self.run(Crawl(self.engine, KEYS, "w").configure(hot_urls, order, importance=importance))
        self.frontier = Frontier(self.engine, KEYS, "w", lease_seconds=NEVER)
        self.tails = tails_of(self.frontier, self.root)
        self.states: dict[str, str] = {}
        """URL -> waits, leased, done, dead or dropped."""
        self.fixed: dict[str, int] = {}
        """The levels that were set, and are not changed by anything else."""
        self.leases: list[Lease] = []
        self.fetched: Counter[str] = Counter()

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def teardown(self) -> None:
        try:
            self.everything_else_is_fetched_once()
        finally:
            self.folder.cleanup()
            self.runner.run(self.engine.close())
            self.runner.close()
            self.valkey.close()

    @rule(batch=batches, level=levels)
    def add(self, batch: list[tuple[str, int]], level: int) -> None:
        candidates = [
            Candidate(host, f"/{n}", hash_of(f"{host}/{n}"), level, n % 3, rise=-2) for host, n in batch
        ]
        for one, is_new in zip(candidates, self.run(self.frontier.add(candidates)), strict=True):
            url = one.host + one.path
            assert is_new == (url not in self.states), "a dropped URL is never queued again"
            self.states.setdefault(url, "waits")

    @rule(batch=batches, level=st.integers(0, 7))
    def queue_again(self, batch: list[tuple[str, int]], level: int) -> None:
        if self.importance:
            again = [Candidate(host, f"/{n}", None, level, 1, rise=0) for host, n in batch]
            self.run(queue_again(self.engine, KEYS, again))

    @rule(hosts=st.integers(1, 3), count=st.integers(1, 6))
    def lease(self, hosts: int, count: int) -> None:
        for lease in self.run(self.frontier.lease(hosts, count)):
            self.leases.append(lease)
            for url in lease.urls:
                assert self.states[url.url] == "waits"
                assert self.fixed.get(url.url, url.level) == url.level
                self.states[url.url] = "leased"

    @rule(verdict=st.sampled_from(["done", "retry", "dead", "again"]), some=st.integers(0, 3))
    def release(self, verdict: Any, some: int) -> None:
        if not self.leases:
            return
        lease = self.leases.pop(0)
        settled, rest = lease.urls[:some], lease.urls[some:]
        assert self.run(
            self.frontier.release(lease, [Settlement(url.index, verdict, 3600.0) for url in settled])
        )
        after = {"done": "done", "dead": "dead"}.get(verdict, "waits")
        self.states |= {url.url: after for url in settled} | {url.url: "waits" for url in rest}
        if verdict == "done":
            self.fetched.update(url.url for url in settled)

    @rule(batch=batches, action=actions, level=levels)
    def change(self, batch: list[tuple[str, int]], action: str, level: int) -> None:
        now = self.clock.now
        values: dict[str, Any] = {
            "level": {"level": level},
            "drop": {"drop": True},
            "later": {"due": now + HOUR_MS, "level": level},
            "now": {"due": now},
        }[action]
        urls = sorted({f"{host}/{n}" for host, n in batch})
        found = self.run(set_urls(self.frontier, [change(url, **values) for url in urls], self.root))
        before = Counter(self.states.get(url, "unknown") for url in urls)
        assert found.get("changed", 0) + found.get("unchanged", 0) == before.pop("waits", 0)
        told = {name: found.get(name, 0) for name in ("leased", "done", "dead", "dropped", "unknown")}
        assert {name: number for name, number in told.items() if number} == before
        for url in urls:
            if self.states.get(url) == "waits" and action == "drop":
                self.states[url] = "dropped"
            elif self.states.get(url) == "waits" and action in ("level", "later"):
                self.fixed[url] = level

    @rule()
    def serve(self) -> None:
        self.run(serve(self.tails, self.frontier))

    @rule(ms=st.sampled_from([1, HOUR_MS // 2, 2 * HOUR_MS]))
    def time_passes(self, ms: int) -> None:
        self.clock.move(ms)

    @invariant()
    def the_listing_tells_what_is(self) -> None:
        done = [url for url, state in self.states.items() if state == "done"]
        found = self.run(listed(self.frontier, self.root, rows=done))
        assert len(found) == len(self.states)
        assert {row["url"]: _class(row["state"]) for row in found} == self.states
        told = {row["url"]: row["level"] for row in found if row["state"] in SETTABLE}
        assert {url: told[url] for url in self.fixed if url in told} == {
            url: level for url, level in self.fixed.items() if url in told
        }

    @invariant()
    def counters_and_credit_are_right(self) -> None:
        contents = Contents.read(self.valkey, KEYS, self.root)
        waiting = [*contents.later.values(), *contents.scheduled.values()]
        counts = self.run(self.frontier.counts())
        assert counts.queued == sum(map(len, contents.queues.values()))
        assert counts.later + counts.scheduled == sum(waiting)
        left = counts.queued - counts.overtaken + counts.later + counts.scheduled
        assert left == sum(state == "waits" for state in self.states.values())
        assert counts.dropped == sum(state == "dropped" for state in self.states.values())
        if self.importance:
            assert Credits.read(self.valkey, KEYS).total == TOTAL

    def everything_else_is_fetched_once(self) -> None:
        while self.leases:
            self.release("done", 100)
        for _ in range(1000):
            self.clock.move(2 * HOUR_MS)
            self.lease(3, 50)
            if not self.leases and not self.run(serve(self.tails, self.frontier)):
                break
            while self.leases:
                self.release("done", 100)
        else:
            raise AssertionError("the crawl does not run empty")
        wanted = {url for url, state in self.states.items() if state not in ("dropped", "dead")}
        assert wanted == {url for url, state in self.states.items() if state == "done"}
        assert wanted <= set(self.fetched)
        counts = self.run(self.frontier.counts())
        assert (counts.queued, counts.overtaken, counts.leased) == (0, 0, 0)
        assert (counts.later, counts.scheduled) == (0, 0)


def _class(state: str) -> str:
    return "waits" if state in SETTABLE else state


@pytest.mark.parametrize(
    ("hot_urls", "order", "importance"),
    [(8, "breadth-first", True), (8, "depth-first", False), (0, "random", False)],
    ids=["spilled-with-credit", "a-stack", "in-memory"],
)
def test_nothing_is_lost_and_dropped_urls_are_not_fetched(
    redis_url: str, hot_urls: int, order: str, importance: bool
) -> None:
    run_state_machine_as_test(
        lambda: SettingMachine(redis_url, hot_urls, order, importance=importance),
        settings=settings(
            max_examples=8,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
            phases=[Phase.reuse, Phase.generate, Phase.shrink],
        ),
    )


verbs = st.tuples(st.sampled_from([*VERBS, "serve", "serve"]), numbers)


async def set_meanwhile(crawling: Crawling, steps: list[Step], meanwhile: list[list[Step]]) -> None:
    await crawling.configure(crawling.frontier)
    for verb, number in [("add", 3), ("serve", 0), ("add", 13), *steps]:
        await crawling.do(verb, number)
    todo = iter(meanwhile)

    async def goes() -> None:
        for verb, number in next(todo, ()):
            await crawling.do(verb, number)

    chosen = sorted(crawling.added)
    changes = [change(url, level=n % 9, drop=n % 3 == 0) for n, url in enumerate(chosen)]
    await set_urls(crawling.frontier, changes, crawling.root, goes)
    found = await listed(crawling.frontier, crawling.root, rows=crawling.settled)
    assert {row["url"] for row in found} == crawling.added, "URLs were lost"
    dropped = {row["url"] for row in found if row["state"] == "dropped"}
    assert dropped <= {chosen[n] for n in range(0, len(chosen), 3)}
    settled = set(crawling.settled)
    crawling.leases.clear()
    await crawling.frontier.reap(everything=True)
    async for key in crawling.frontier.engine.client.scan_iter("wc:*:name:*"):
        # a blocked host is held for its worker
        await crawling.frontier.engine.client.delete(key)
    # dead letters in the store
    while await copying.serve(crawling.tails_of(crawling.frontier), crawling.frontier.keys.shards):
        pass
    left = await drained(crawling.frontier, crawling.tails_of(crawling.frontier))
    assert len(left) == len(set(left)), "URLs are fetched twice"
    assert set(left) == crawling.added - dropped - settled


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(verbs, max_size=15),
    st.lists(st.lists(verbs, max_size=2), max_size=20),
    st.sampled_from([4, 1000]),
)
def test_urls_are_changed_while_workers_go_on(
    frontier_of: Frontiers,
    runner: asyncio.Runner,
    valkey: Redis,
    steps: list[Step],
    meanwhile: list[list[Step]],
    batch: int,
) -> None:
    """`batch`: lists of the engine that are longer are searched in pieces."""
    valkey.flushall()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(setting, "BATCH", batch)
        crawling = Crawling(
            frontier_of(lease_seconds=NEVER),
            hosts=HOSTS[:2],
            together=30,
            root=Path(folder),
        )
        runner.run(set_meanwhile(crawling, steps, meanwhile))


async def test_levels_decide_the_order_also_of_urls_in_the_store(
    frontier: Frontier, valkey: Redis, tmp_path: Path
) -> None:
    tails = await spilling(frontier, tmp_path)
    urls = numbered(200)
    await frontier.add([page(url) for url in urls])
    await serve(tails, frontier)
    assert (await frontier.counts()).spilled > 100
    changes = [change(url, level=1) for url in urls[1::50]] + [change(url, drop=True) for url in urls[::10]]
    assert await set_urls(frontier, changes, tmp_path) == {
        "changed": 24,
        "dropped_now": 20,
        "levelled": 4,
    }
    Contents.read(valkey, frontier.keys, tmp_path)
    order = await fetch(frontier, tails)
    assert order[:4] == urls[1::50]
    left = [url for url in urls if url not in {*urls[1::50], *urls[::10]}]
    assert order[4:] == left


async def test_long_lists_are_searched_in_pieces(frontier_of: Frontiers, valkey: Redis) -> None:
    frontier, urls = frontier_of(low_share=0), numbered(4_500)
    await frontier.add([page(url, level=number % 2) for number, url in enumerate(urls)])
    changes = [change(url, drop=True) for url in urls[::3]]
    assert (await set_urls(frontier, changes))["changed"] == len(urls[::3])
    Contents.read(valkey, frontier.keys)
    left = [url for number, url in enumerate(urls) if number % 3]
    fetched = []
    while leases := await frontier.lease(1, 1000):
        fetched += urls_of(leases)
        await frontier.release(leases[0], [Settlement(url.index) for url in leases[0].urls])
    assert fetched == [url for level in (0, 1) for url in left if int(url.rpartition("/")[2]) % 2 == level]


async def test_lost_replies_change_nothing(
    engine_at: Callable[..., Any], frontier_of: Frontiers, redis_url: str
) -> None:
    frontier = frontier_of()
    losing = Losing(redis_url)
    losing.scripts = ("set_urls", "set_waiting")
    await frontier.add([page(f"{host}/{number}") for host in HOSTS for number in range(3)])
    changes = [change(f"{host}/{number}", drop=True) for host in HOSTS for number in range(2)]
    found = await set_urls(Frontier(losing, frontier.keys, "w"), changes)
    assert sum(found.get(name, 0) for name in ("changed", "dropped")) == len(changes)
    assert sorted(urls_of(await frontier.lease(10, 10))) == sorted(f"{host}/2" for host in HOSTS)
    await losing.close()


async def test_changes_wait_for_a_checkpoint(frontier: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setting, "_LOOK_SECONDS", 0.01)
    await frontier.add([page(f"{HOST}/{number}") for number in range(3)])
    exporter = exporter_of(frontier)
    await exporter.begin()
    task = asyncio.create_task(set_urls(frontier, [change(f"{HOST}/1", drop=True)]))
    with suppress(TimeoutError):
        async with asyncio.timeout(0.1):
            await asyncio.shield(task)
    assert (await frontier.counts()).dropped == 0
    await exporter.end()
    assert (await task)["changed"] == 1


async def test_a_store_that_is_away_is_told(frontier: Frontier, tmp_path: Path) -> None:
    tails = await spilling(frontier, tmp_path)
    urls = numbered(100)
    await frontier.add([page(url) for url in urls])
    await serve(tails, frontier)
    spilled = (await frontier.counts()).spilled
    [folder] = tmp_path.iterdir()
    folder.rename(tmp_path / "away")
    found = await set_urls(frontier, [change(url, level=1) for url in urls], tmp_path)
    assert found["unreachable"] == spilled and found["changed"] == 100 - spilled
    (tmp_path / "away").rename(folder)
    assert (await set_urls(frontier, [change(url, level=1) for url in urls], tmp_path))["changed"] == spilled


async def test_a_part_that_moved_meanwhile_is_left_alone(
    frontier: Frontier, valkey: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's next part is read into the engine after the part was written anew, and before it is replaced."""
    tails = await spilling(frontier, tmp_path)
    urls = numbered(60)
    await frontier.add([page(url) for url in urls])
    await serve(tails, frontier)
    [lease] = await frontier.lease(1, 6)
    write = Tails.write

    async def late(self: Tails, shard: int, entries: list[bytes]) -> bytes:
        written = await write(self, shard, entries)
        await serve(tails, frontier)
        return written

    monkeypatch.setattr(Tails, "write", late)
    found = await set_urls(frontier, [change(url, drop=True) for url in urls[10:20]], tmp_path)
    assert found["changed"] == 10
    Contents.read(valkey, frontier.keys, tmp_path)
    await frontier.release(lease, [Settlement(url.index) for url in lease.urls])
    assert await fetch(frontier, tails) == [*urls[6:10], *urls[20:]]
