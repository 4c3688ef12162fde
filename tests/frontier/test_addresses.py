"""Workers take turns at an IP address: never too early, never too many at once, whatever becomes of their calls."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import HealthCheck, given, settings, strategies as st
from redis import Redis

from tests.frontier.clock import Clock, ClockedEngine
from webcrawl.config import AddressConfig
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Frontier
from webcrawl.frontier.addresses import EngineAddressTurns
from webcrawl.hosts.address_turn import AddressTurn, Ask

ADDRESS = "192.0.2.1"
KEYS = Keys("crawl", 1)
HELD = 1000.0
Frontiers = Callable[..., Frontier]


@dataclass
class Worker:
    """A worker that may die: its requests end with it, and another one takes its place."""

    name: str
    turn: AddressTurn
    waiting: int = 3


@dataclass
class Workers:
    """Workers at one address on one clock, and the times at which requests were sent."""

    engine: ClockedEngine
    clock: Clock
    config: AddressConfig
    held_seconds: float = HELD
    starts: list[float] = field(default_factory=list)
    most: int = 0
    names: int = 0
    workers: list[Worker] = field(default_factory=list)

    @property
    def now(self) -> float:
        return self.clock.now / 1000

    def add(self) -> None:
        self.names += 1
        turn = AddressTurn(self.config.delay, self.config.connections)
        self.workers.append(Worker(f"w{self.names}", turn))

    async def ask(
        self, worker: Worker, ask: Ask, before: int = 0, after: int = 0, *, lost: bool = False
    ) -> None:
        """Asks the engine; the call takes `before` ms to the engine and its reply `after` ms back."""
        addresses = EngineAddressTurns(
            self.engine, KEYS, worker.name, self.config, self.held_seconds, asyncio.Event()
        )
        asked = self.now
        worker.turn.asks(ask)
        self.clock.move(before)
        # while the question is under way, its window and connections may still be used
        self.start(worker)
        grant, _ = await addresses.ask(ask)
        self.start(worker)
        self.clock.move(after)
        if not lost:
            worker.turn.take(ask, grant, asked, self.now, 0.8 * self.held_seconds)

    async def send(self, worker: Worker, ms: int, *, late: bool) -> None:
        """Reserves a window if there is none, and sends a request in it, as early as possible or at its end."""
        turn = worker.turn
        if turn.is_over(self.now):
            await self.ask(worker, turn.ask(ADDRESS, worker.waiting, self.now), ms % 7, ms % 11)
        self._move_to(turn.begins)
        if turn.is_full:
            await self.ask(worker, turn.ask_connections(ADDRESS, worker.waiting))
        if math.isfinite(ready := turn.ready_at()):
            self._move_to(max(ready, math.floor(turn.ends * 1000) / 1000 if late else 0))
        self.start(worker)

    def start(self, worker: Worker) -> None:
        """Sends a request if it may be sent."""
        if worker.turn.may_start(self.now):
            worker.turn.start(self.now)
            self.starts.append(self.now)
            self.most = max(self.most, sum(one.turn.in_flight for one in self.workers))

    async def step(self, place: int, action: str, ms: int) -> None:
        worker = self.workers[place % len(self.workers)]
        turn = worker.turn
        if action == "pass":
            self.clock.move(ms)
        elif action in ("send", "late"):
            await self.send(worker, ms, late=action == "late")
        elif action == "lose" and turn.is_over(self.now):
            await self.ask(worker, turn.ask(ADDRESS, worker.waiting, self.now), lost=True)
        elif action == "release":
            await self.ask(worker, turn.ask_connections(ADDRESS, 0), ms % 7)
        elif action == "end" and turn.in_flight:
            turn.finish()
        elif action == "die":
            self.workers.remove(worker)
            self.add()

    def _move_to(self, time: float) -> None:
        self.clock.move(max(0, math.ceil(time * 1000 - 1e-6) - self.clock.now))


ACTIONS = st.sampled_from(("pass", "send", "send", "late", "lose", "release", "end", "end", "die"))
STEPS = st.lists(st.tuples(st.integers(0, 2), ACTIONS, st.integers(0, 1200)), max_size=60)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(delay=st.sampled_from((0.0, 0.05, 0.1, 3.0)), connections=st.integers(0, 3), steps=STEPS)
def test_no_request_is_too_early_and_never_too_many_are_under_way(
    redis_url: str, delay: float, connections: int, steps: list[tuple[int, str, int]]
) -> None:
    async def play() -> None:
        engine = ClockedEngine(redis_url)
        try:
            with Redis.from_url(redis_url) as valkey:
                valkey.flushdb()
                workers = Workers(engine, Clock(valkey, ["{s0}"]), AddressConfig(connections, delay))
                for _ in range(3):
                    workers.add()
                for step in steps:
                    await workers.step(*step)
        finally:
            await engine.close()
        # times are floats of whole milliseconds
        assert all(after - before >= delay - 1e-6 for before, after in pairwise(workers.starts))
        if connections:
            assert workers.most <= connections

    asyncio.run(play())
