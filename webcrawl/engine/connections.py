"""The connection pool of one server."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import hiredis
import redis.asyncio
from redis.connection import HiredisRespSerializer
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
    ResponseError,
    TimeoutError as RedisTimeoutError,
)

Words: TypeAlias = Sequence[str | bytes | int | float]
"""A command and its arguments."""

_SERIALIZER = HiredisRespSerializer()
_SENT_TOGETHER = 131_072
"""Bytes of commands after which replies are awaited.

A server does not read further commands while it runs earlier ones. So thousands of commands would have to run within
`socket_timeout` to be sent, and those of a busy machine would be lost and repeated without end.
"""
_READ_TOGETHER = 20
"""Replies that must arrive within `socket_timeout`."""


class ConnectionPool(redis.asyncio.BlockingConnectionPool):
    """A pool whose calls wait for a free connection; redis-py's usual pool raises as if the server were unavailable.

    Calls get connections in the order in which they came. In redis-py's own pool that waits, later calls pass those
    that were woken, so that while hundreds of calls wait, some wait until their timeout.

    A loss of idle connections is raised once. redis-py would reconnect silently, but the server may have restarted,
    so its clients may have to repeat their last writes.
    """

    made = 0
    """How many connections were made."""
    _losses = 0

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._turns = asyncio.Semaphore(self.max_connections)

    async def get_connection(self, *_: Any, **__: Any) -> Any:
        """Returns a connection, which is to be released; raises ConnectionError if none is free in time."""
        if not self._turns.locked():  # needs no timer
            await self._turns.acquire()
        else:
            try:
                async with asyncio.timeout(self.timeout):
                    await self._turns.acquire()
            except TimeoutError as error:
                raise RedisConnectionError("No connection available.") from error
        connection = self.get_available_connection()  # type: ignore[no-untyped-call]
        try:
            await self.ensure_connection(connection)
        except BaseException:
            await self.release(connection)
            raise
        return connection

    async def release(self, connection: Any) -> None:
        """Returns a connection to the pool."""
        try:
            # not that of the pool that waits, which has turns of its own
            await redis.asyncio.ConnectionPool.release(self, connection)
        finally:
            self._turns.release()

    def make_connection(self) -> Any:
        connection: Any = super().make_connection()  # type: ignore[no-untyped-call]
        # redis-py packs commands in C only in its synchronous client; this takes a third of the time
        connection.pack_command = _SERIALIZER.pack
        connection.send_packed_command = partial(_send, connection, connection.send_packed_command)
        return connection

    async def ensure_connection(self, connection: Any) -> None:
        made_after = getattr(connection, "made_after", None)
        is_news = made_after == self._losses
        if not connection.is_connected:
            # the call that lost the connection has raised the error
            self._losses += is_news
        elif await connection.can_read():
            await connection.disconnect()
            if is_news:
                self._losses += 1
                raise RedisConnectionError("the connection was lost")
        else:
            return
        self.made += 1
        connection.made_after = self._losses
        await _cancellable(super().ensure_connection(connection))

    async def exchange(self, commands: Sequence[Words]) -> list[Any]:
        """Sends commands together and returns the raw replies in order; an error of the server is a reply.

        redis-py's pipeline does the same, but takes twice as long: it starts a timer for each reply. Raises redis-py's
        ConnectionError and TimeoutError.
        """
        if not commands:
            return []
        connection: Any = await self.get_connection()
        try:
            replies: list[Any] = []
            for packed in _groups(map(_packed, commands)):
                await connection.send_packed_command(b"".join(packed))
                end = len(replies) + len(packed)
                while len(replies) < end:
                    async with asyncio.timeout(connection.socket_timeout):
                        for _ in range(min(_READ_TOGETHER, end - len(replies))):
                            replies.append(await _reply(connection))
            return replies
        except TimeoutError as error:
            raise RedisTimeoutError("the server does not answer in time") from error
        finally:
            await self.release(connection)


async def _send(
    connection: Any, send: Callable[..., Coroutine[Any, Any, None]], command: Any, **options: Any
) -> None:
    """Sends a packed command. A task that is cancelled meanwhile reads no reply, so the connection is closed."""
    try:
        await _cancellable(send(command, **options))
    except asyncio.CancelledError:
        await connection.disconnect(nowait=True)
        raise


async def _cancellable(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine of redis-py, which drops some cancellations while it connects and sends; the task would go on.

    Before Python 3.12, `asyncio.wait_for` drops one that comes when its work has just ended.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    await work
    if task and task.cancelling() > before:
        raise asyncio.CancelledError


def _packed(words: Words) -> bytes:
    command: Any = tuple(words)  # hiredis declares a tuple of one word
    return bytes(hiredis.pack_command(command))


def _groups(commands: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yields the packed commands that are sent together."""
    group: list[bytes] = []
    size = 0
    for command in commands:
        if group and size + len(command) > _SENT_TOGETHER:
            yield group
            group, size = [], 0
        group.append(command)
        size += len(command)
    yield group


async def _reply(connection: Any) -> Any:
    """Returns the next reply; the caller limits the time. Any other error closes the connection."""
    try:
        return await connection.read_response(timeout=math.inf)
    except ResponseError as error:
        return error
