"""The pool of connections to the engine: calls get connections in the order in which they came."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.pacing import run
from webcrawl.engine.connections import ConnectionPool


class Connected:
    """A connection that needs no server."""

    is_connected = True

    def __init__(self, **_: Any) -> None: ...

    async def can_read(self) -> bool:
        return False

    async def re_auth(self) -> None: ...

    def should_reconnect(self) -> bool:
        return False


def test_later_calls_pass_none_that_wait() -> None:
    pool, order = ConnectionPool(connection_class=Connected, max_connections=2), list[int]()

    async def call(number: int) -> None:
        connection = await pool.get_connection()
        order.append(number)
        await asyncio.sleep(0)
        if number < 300:
            calls.append(asyncio.ensure_future(call(number + 100)))
        await pool.release(connection)

    calls: list[asyncio.Task[None]] = []

    async def crawl() -> None:
        calls.extend(asyncio.ensure_future(call(number)) for number in range(100))
        for task in calls:
            await task

    run(crawl())
    assert order == list(range(400))


def test_a_call_that_gives_up_leaves_its_turn_to_the_next() -> None:
    pool = ConnectionPool(connection_class=Connected, max_connections=1, timeout=0.01)

    async def crawl() -> None:
        held = await pool.get_connection()
        with pytest.raises(RedisConnectionError, match="No connection available"):
            await pool.get_connection()
        pool.timeout = 60
        cancelled, next_call = (asyncio.ensure_future(pool.get_connection()) for _ in range(2))
        await asyncio.sleep(0)
        await pool.release(held)
        cancelled.cancel()
        assert await next_call is held

    run(crawl())
