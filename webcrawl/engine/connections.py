"""The connection pool of one server."""

from __future__ import annotations

from typing import Any

import redis.asyncio
from redis.connection import HiredisRespSerializer
from redis.exceptions import ConnectionError as RedisConnectionError

_SERIALIZER = HiredisRespSerializer()


class ConnectionPool(redis.asyncio.BlockingConnectionPool):
    """A pool whose calls wait for a free connection; the usual pool raises as if the server were unavailable.

    A loss of idle connections is raised once. redis-py would reconnect silently, but the server may have restarted,
    so its clients may have to repeat their last writes.
    """

    made = 0
    """How many connections were made."""
    _losses = 0

    def make_connection(self) -> Any:
        connection: Any = super().make_connection()  # type: ignore[no-untyped-call]
        # redis-py packs commands in C only in its synchronous client; this takes a third of the time
        connection.pack_command = _SERIALIZER.pack
        return connection

    async def ensure_connection(self, connection: Any) -> None:
        made_after = getattr(connection, "made_after", None)
        is_news = made_after == self._losses
        if not connection.is_connected:
            # the call that lost it has raised the error
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
        await super().ensure_connection(connection)
