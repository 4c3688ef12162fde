"""The pool of connections to the engine: calls get connections in the order in which they came."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import hiredis
import pytest
from redis.asyncio import UnixDomainSocketConnection
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

    async def send_packed_command(self, command: bytes) -> None: ...

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


class LateServer(asyncio.Protocol):
    """Answers "x" to each command of so many bytes, when no further ones have come for a moment.

    `unanswered`: the number of commands that had come before each answer.
    """

    def __init__(self, size: int, unanswered: list[int]) -> None:
        self._size = size
        self._unanswered = unanswered
        self._received = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(0.02, self._answer)

    def _answer(self) -> None:
        whole, self._received = divmod(self._received, self._size)
        self._unanswered.append(whole)
        self._transport.write(b"+x\r\n" * whole)


def test_many_commands_are_sent_as_the_server_answers(tmp_path: Path) -> None:
    command, number, unanswered = ("ECHO", b"x" * 10_000), 100, list[int]()
    size = len(hiredis.pack_command(command))

    async def crawl() -> None:
        server = await asyncio.get_running_loop().create_unix_server(
            lambda: LateServer(size, unanswered), str(tmp_path / "s")
        )
        pool = ConnectionPool(
            connection_class=UnixDomainSocketConnection,
            path=str(tmp_path / "s"),
            protocol=2,
            driver_info=None,
            timeout=60,
        )
        async with server:
            assert await pool.exchange([command] * number) == [b"x"] * number
            await pool.disconnect()

    run(crawl())
    assert sum(unanswered) == number and max(unanswered) <= 13


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


def test_a_call_that_is_cancelled_while_it_sends_is_cancelled(tmp_path: Path) -> None:
    """Also after each later step of the loop. The pool answers the next call with the reply of that call."""

    class Echo(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport = cast("asyncio.Transport", transport)

        def data_received(self, data: bytes) -> None:
            self._transport.write(data)

    async def crawl() -> None:
        server = await asyncio.get_running_loop().create_unix_server(Echo, str(tmp_path / "s"))
        pool = ConnectionPool(
            connection_class=UnixDomainSocketConnection,
            path=str(tmp_path / "s"),
            protocol=2,
            driver_info=None,
            timeout=60,
            socket_timeout=60,
        )
        async with server:
            assert await pool.exchange([("ECHO", "0")]) == [[b"ECHO", b"0"]]
            for steps in range(1, 12):
                call = asyncio.ensure_future(pool.exchange([("ECHO", "lost")]))
                for _ in range(steps):
                    await asyncio.sleep(0)
                is_done = call.done()
                call.cancel()
                (reply,) = await asyncio.gather(call, return_exceptions=True)
                assert is_done or isinstance(reply, asyncio.CancelledError), steps
                assert await pool.exchange([("ECHO", f"{steps}")]) == [[b"ECHO", b"%d" % steps]]
            await pool.disconnect()

    run(crawl())
