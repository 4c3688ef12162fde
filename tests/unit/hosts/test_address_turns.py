"""How requests of one worker wait for the turns of addresses; test_addresses.py has the engine's side."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.cases import cases
from tests.pacing import run
from webcrawl.config import AddressConfig
from webcrawl.errors import EngineUnavailable, LongWait
from webcrawl.hosts.address_turn import AddressTurn, Ask, Grant, turn_of
from webcrawl.hosts.address_turns import AddressTurns
from webcrawl.hosts.networks import Networks, read_networks

HERE, THERE, FREE = "192.0.2.1", "192.0.2.2", "198.51.100.1"


class Engine:
    """Gives each window at once, and records what it is asked."""

    def __init__(self, wait: float = 0.0) -> None:
        self.asks: list[Ask] = []
        self.wait = wait
        self.error: Exception | None = None

    async def ask(self, ask: Ask) -> tuple[Grant, float]:
        asked = time.monotonic()
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        self.asks.append(ask)
        return Grant(self.wait, ask.at_once, str(len(self.asks)), ask.connections), asked


def turns_of(engine: Engine, config: AddressConfig, held_seconds: float = 60.0) -> AddressTurns:
    turns = AddressTurns(config, read_networks("", ["198.51.100.0/24"]), held_seconds)
    turns.ask = engine.ask
    return turns


async def request(
    turns: AddressTurns, key: object, address: str = HERE, connected: str | None = None
) -> float:
    """Sends a request; returns when it was sent."""
    await turns.enter(key, address, asyncio.Event())
    await turns.begin(key, connected)
    sent = time.monotonic()
    await asyncio.sleep(0.001)
    turns.end(key)
    return sent


def test_requests_to_an_address_keep_the_delay_and_share_the_calls() -> None:
    async def crawl() -> None:
        engine = Engine()
        turns = turns_of(engine, AddressConfig(delay=0.02))
        begun = time.monotonic()
        sent = sorted(await asyncio.gather(*(request(turns, n) for n in range(20))))
        # a busy machine sends one late, and the next in time; none may be early
        assert all(time >= begun + 0.02 * place for place, time in enumerate(sent))
        assert len(engine.asks) <= 3
        await turns.close()

    run(crawl())


def test_a_request_takes_the_turn_of_the_address_that_it_is_connected_to() -> None:
    async def crawl() -> None:
        engine = Engine()
        turns = turns_of(engine, AddressConfig(delay=0.05))
        first = await request(turns, 1, HERE)
        # it has left the turn of HERE, which another request takes meanwhile
        second = await request(turns, 2, THERE, connected=HERE)
        await request(turns, 3, HERE, connected=FREE)
        assert second - first >= 0.05
        assert {ask.address for ask in engine.asks} == {HERE, THERE}
        await turns.close()

    run(crawl())


def test_a_host_that_would_wait_for_long_is_put_off_and_comes_again_at_the_pace_of_the_address() -> None:
    async def crawl() -> None:
        turns = turns_of(Engine(wait=30.0), AddressConfig(delay=1.0))
        ending, put_off, waiting = asyncio.Event(), [], []
        for n in range(15):
            enter = turns.enter(n, HERE, ending, may_be_put_off=True)
            task = asyncio.ensure_future(enter)
            waiting.append(task)
            await asyncio.sleep(0)
            if task.done() and isinstance(error := task.exception(), LongWait):
                put_off.append(error.seconds)
        assert len(put_off) == 5
        assert put_off == pytest.approx([10.7, 11.4, 12.1, 12.8, 13.5], abs=0.2)
        ending.set()
        turns.wake()
        await asyncio.gather(*waiting, return_exceptions=True)
        await turns.close()

    run(crawl())


def test_an_engine_that_stays_unavailable_fails_what_waits() -> None:
    async def crawl() -> None:
        engine = Engine()
        engine.error = EngineUnavailable("gone")
        turns = turns_of(engine, AddressConfig(delay=1.0))
        with pytest.raises(EngineUnavailable):
            await turns.enter(1, HERE, asyncio.Event())
        engine.error = None
        await request(turns, 2)
        await turns.close()

    run(crawl())


def test_no_window_is_used_or_asked_for_right_after_a_restart_of_the_engine() -> None:
    async def crawl() -> None:
        engine = Engine()
        turns = turns_of(engine, AddressConfig(delay=0.01))
        await request(turns, 1)
        turns.engine_restarted(0.3)
        began = time.monotonic()
        assert await request(turns, 2) >= began + 0.3
        await turns.close()

    run(crawl())


def test_connections_are_returned_when_nobody_waits() -> None:
    async def crawl() -> None:
        engine = Engine()
        turns = turns_of(engine, AddressConfig(connections=2))
        await asyncio.gather(*(request(turns, n) for n in range(5)))
        await asyncio.sleep(0.02)
        assert (engine.asks[-1].connections, engine.asks[-1].in_use) == (0, 0)
        assert all(ask.connections <= 2 for ask in engine.asks)
        await turns.close()

    run(crawl())


def test_connections_that_are_being_returned_are_not_used() -> None:
    turn = AddressTurn(0.0, 3)
    ask = turn.ask(HERE, 3, 0.0)
    turn.take(ask, Grant(0.0, 9.0, "1", 3), 0.0, 0.0, 60.0)
    turn.start(1.0)
    assert turn.may_start(1.0)
    turn.asks(turn.ask_connections(HERE, 0))
    assert not turn.may_start(1.0)


@cases(
    ("address", "turn"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:0:1::5", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_an_ipv6_network_of_64_bits_has_one_turn(address: str, turn: str) -> None:
    assert turn_of(address) == turn


def test_excepted_networks_are_not_limited() -> None:
    turns = turns_of(Engine(), AddressConfig(delay=1.0))
    assert [turns.limits(one) for one in (HERE, FREE)] == [True, False]
    assert AddressTurns(AddressConfig(delay=1.0), Networks([]), 60.0).limits(FREE)
