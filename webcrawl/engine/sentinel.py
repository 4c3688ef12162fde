"""A primary that Valkey or Redis Sentinel watches, and replaces by a replica when the primary dies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import redis.asyncio
from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError, RedisError

from webcrawl.engine.connections import ConnectionPool
from webcrawl.engine.replication import Command, Replication
from webcrawl.engine.server_url import ServerURL
from webcrawl.errors import EngineUnavailable

_SENTINEL_SECONDS = 1.0
"""Seconds to wait for a sentinel before the next sentinel is asked."""

_FAILOVER_SECONDS = 5.0
"""Seconds for which a primary without a replica may already have been replaced.

It accepts writes until a sentinel demotes it after ten seconds. All sentinels name its successor after two seconds.
"""

_LOOK_AGAIN_SECONDS = 0.2


class Sentinels:
    """Asks sentinels for the address of a primary, first the sentinel that answered last."""

    def __init__(self, url: ServerURL, parameters: Mapping[str, Any]) -> None:
        assert url.primary is not None
        self._primary = url.primary
        shared = {name: value for name, value in parameters.items() if name.startswith("ssl_")}
        self._clients: list[Any] = [
            redis.asyncio.Redis(
                host=host,
                port=port,
                ssl=url.tls,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=_SENTINEL_SECONDS,
                socket_connect_timeout=_SENTINEL_SECONDS,
                **shared,
                **(url.sentinel_options or {}),
            )
            for host, port in url.addresses
        ]
        self._names = {
            client: f"{host}:{port}"
            for client, (host, port) in zip(self._clients, url.addresses, strict=True)
        }

    async def primary(self) -> tuple[str, int]:
        """Returns the address of the primary; raises redis-py's ConnectionError if no sentinel knows it."""
        failures = []
        for client in list(self._clients):
            try:
                address = await client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._primary)
            except (RedisError, OSError) as error:
                failures.append(f"sentinel {self._names[client]}: {error}")
                continue
            if address:
                self._clients.remove(client)
                self._clients.insert(0, client)
                host, port = address
                return host.decode(), int(port)
            failures.append(f"sentinel {self._names[client]} watches no primary {self._primary!r}")
        raise RedisConnectionError("; ".join(failures))

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()


class _ToPrimary(Connection):
    """A connection to the server that is the primary when the connection is made."""

    def __init__(self, *, find_primary: Callable[[], Awaitable[tuple[str, int]]], **options: Any) -> None:
        super().__init__(**options)
        self._find_primary = find_primary

    async def _connect(self) -> None:
        self.host, self.port = await self._find_primary()
        await super()._connect()  # type: ignore[no-untyped-call]


class _ToPrimaryByTLS(_ToPrimary, SSLConnection):
    """The same connection over TLS."""


class SentinelPrimary:
    """Runs commands on the primary, each batch confirmed by a replica."""

    def __init__(self, url: ServerURL, parameters: Mapping[str, Any]) -> None:
        self._sentinels = Sentinels(url, {**parameters, **url.options})
        self._pool = ConnectionPool(
            connection_class=_ToPrimaryByTLS if url.tls else _ToPrimary,
            find_primary=self._sentinels.primary,
            **{**parameters, **url.options},
        )
        self.client: Any = redis.asyncio.Redis.from_pool(self._pool)
        self._replication = Replication(replicated=True)
        self._alone_since: float | None = None
        """Monotonic time since which the primary has no replica."""

    async def check(self) -> None:
        """Waits until the primary has a replica or cannot have been replaced; raises the errors of `send`."""
        deadline = time.monotonic() + 2 * _FAILOVER_SECONDS
        while await self._batch([]) is None and time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """Returns replies in order, with an exception for each command that failed.

        Raises an error of webcrawl.engine.client.UNAVAILABLE if the primary does not answer, or may have been replaced.
        A command that failed with such an error may still have been executed.
        """
        replies = await self._batch(commands)
        if replies is None:
            raise EngineUnavailable("the primary has no replica, and may have been replaced by it")
        return replies

    async def _batch(self, commands: Sequence[Command]) -> list[Any] | None:
        """Returns the replies to some commands; None if the server may not be the primary any more."""
        pipeline = self.client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command.words)
        for words in self._replication.ending():
            pipeline.execute_command(*words)
        replies = list(await pipeline.execute(raise_on_error=False))
        if not self._replication.is_primary(replies) or self._may_be_replaced(replies):
            # new connections ask the sentinels again
            await self._pool.disconnect(inuse_connections=False)
            return None
        return self._replication.confirmed(replies, "the primary")

    def _may_be_replaced(self, replies: Sequence[Any]) -> bool:
        if self._replication.has_replica(replies):
            self._alone_since = None
            return False
        now = time.monotonic()
        self._alone_since = self._alone_since or now
        return now < self._alone_since + _FAILOVER_SECONDS

    async def close(self) -> None:
        await self.client.aclose()
        await self._sentinels.close()
