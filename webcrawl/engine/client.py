"""The client of the Valkey (or Redis >= 7) server or cluster behind a crawl, and its Lua scripts."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import redis.asyncio
import redis.asyncio.cluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.connection import HiredisRespSerializer
from redis.exceptions import (
    ClusterDownError,
    ClusterError,
    ConnectionError as RedisConnectionError,
    MasterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TimeoutError as RedisTimeoutError,
    TryAgainError,
)

from webcrawl.engine.backoff import SHUTDOWN_SECONDS, Backoff
from webcrawl.engine.cluster import Cluster, Command
from webcrawl.engine.scripts import Call, script_source
from webcrawl.errors import ConfigurationError, EngineError, EngineFull, EngineUnavailable

_REFUSING_FOR_NOW = (OutOfMemoryError, ReadOnlyError, MasterDownError, ClusterDownError, TryAgainError)

UNAVAILABLE = (
    RedisConnectionError,
    RedisTimeoutError,
    OSError,
    EngineUnavailable,
    ClusterError,
    RedisClusterException,
    *_REFUSING_FOR_NOW,
)
"""What is raised while the server is away, loading or full: worth trying again, nothing was refused for good."""

_PASSING = ("LOADING", "BUSY", "MISCONF", "NOREPLICAS")

_OLDEST = (7, 0)
_RETRY_SECONDS = 60.0
_MOST_CONNECTIONS = 16
_SERIALIZER = HiredisRespSerializer()

T = TypeVar("T")


class _Pool(redis.asyncio.BlockingConnectionPool):
    """Its calls wait for a free connection: the usual pool raises what looks like a server that is away.

    That connections were lost while nobody used them is told of once: redis-py would make others and say nothing. Who
    believes the server to know something has to say it again.
    """

    made = 0
    """Connections that were made."""
    _losses = 0

    def make_connection(self) -> Any:
        connection: Any = super().make_connection()  # type: ignore[no-untyped-call]
        # redis-py packs commands in C only where nothing is asynchronous: a third of the time
        connection.pack_command = _SERIALIZER.pack
        return connection

    async def ensure_connection(self, connection: Any) -> None:
        made_after = getattr(connection, "made_after", None)
        is_news = made_after == self._losses
        if not connection.is_connected:
            # whoever had it when it was lost knows
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


class Engine:
    """Runs scripts and plain commands, on a server or, when `check` finds that it is one of a cluster, on that.

    `client` is redis-py's asyncio client for whatever only reads. Replies are bytes.
    """

    def __init__(
        self, url: str, parameters: Mapping[str, Any] | None = None, *, embedded: bool = False
    ) -> None:
        self.url = url
        self.embedded = embedded
        """It is of this machine: in a power failure it goes together with its workers."""
        self._options = {
            key: value for key, value in (parameters or {}).items() if key not in _SCRAPY_REDIS_ONLY
        }
        self._options["decode_responses"] = False
        # nor does redis-py mend a connection that is lost in use
        self._options.setdefault("retry", Retry(NoBackoff(), 0))
        self._cluster: Cluster | None = None
        self.client: Any = self._connect(cluster=False)

    async def check(self) -> None:
        """Raise EngineUnavailable or EngineError unless a server new enough answers."""
        try:
            info = await self.client.info("server")
            if self._cluster is None and (await self.client.info("cluster")).get("cluster_enabled"):
                await self._join_cluster()
        except UNAVAILABLE as error:
            raise EngineUnavailable(
                f"no Valkey or Redis server at REDIS_URL {without_password(self.url)}: {error}"
            ) from error
        except TypeError as error:  # an unknown option shows when the first connection is made
            raise ConfigurationError(f"REDIS_PARAMS: {error}") from error
        except RedisError as error:
            raise EngineError(f"the server at {without_password(self.url)} refuses: {error}") from error
        version = str(info["redis_version"])
        if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
            raise EngineError(
                f"the server at {without_password(self.url)} is {version}: 7.0 or newer is needed"
            )

    def script(self, name: str) -> tuple[str, str]:
        """What is run under a name: (SHA-1, text)."""
        return script_source(name)

    async def run(self, call: Call) -> Any:
        """Run one script and return its reply."""
        return (await self.run_all([call]))[0]

    async def run_all(self, calls: Sequence[Call], *, some: bool = False) -> list[Any]:
        """Run scripts, those on one server in one round trip; replies in the order of the calls.

        `some`: an exception of UNAVAILABLE stands in the place of the reply that it prevented, and is not raised.
        """
        replies = await self._send(
            [Command(one.keys[0], ("EVALSHA", self.script(one.script)[0], *_counted(one))) for one in calls]
        )
        new = [place for place, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if new:  # the first run of a script on a server sends its text, which the server keeps
            texts = [
                Command(
                    calls[place].keys[0],
                    ("EVAL", self.script(calls[place].script)[1], *_counted(calls[place])),
                )
                for place in new
            ]
            for place, reply in zip(new, await self._send(texts), strict=True):
                replies[place] = reply
        return _replies([call.script for call in calls], replies, some)

    async def change(self, key: str, command: str, *arguments: str | bytes | int) -> Any:
        """Run one plain command that writes to `key`, as safely as a script."""
        return (await self.change_all([Command(key, (command, key, *arguments))]))[0]

    async def change_all(self, commands: Sequence[Command]) -> list[Any]:
        """The same for several, those on one server in one round trip."""
        return _replies([str(one.words[0]) for one in commands], await self._send(commands))

    @property
    def is_cluster(self) -> bool:
        """Its keys are on several servers: a script can touch only those of one shard."""
        return self._cluster is not None

    @property
    def connections(self) -> int:
        """How many were made to one server: another one may lead to a server that was started again."""
        return getattr(self.client.connection_pool, "made", 0) if self._cluster is None else 0

    async def servers(self) -> list[str]:
        """Who holds the data: something else after a restart or a failover, and when slots have moved."""
        if self._cluster is not None:
            return await self._cluster.servers()
        return [str((await self.client.info("server"))["run_id"])]

    async def age(self) -> float:
        """Seconds, rounded down, since one server was started; infinite for a cluster, where replicas take over."""
        if self._cluster is not None:
            return math.inf
        return float((await self.client.info("server"))["uptime_in_seconds"])

    async def _send(self, commands: Sequence[Command]) -> list[Any]:
        """Replies in order, an exception in the place of each that failed."""
        try:
            if self._cluster is not None:
                return await self._cluster.send(commands)
            pipeline = self.client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command.words)
            return list(await pipeline.execute(raise_on_error=False))
        except UNAVAILABLE as error:
            return [error] * len(commands)

    async def _join_cluster(self) -> None:
        """Go on with the cluster that the server is a part of."""
        one = self.client
        self.client = self._connect(cluster=True)
        self._cluster = Cluster(self.client)
        await one.aclose()

    def _connect(self, *, cluster: bool) -> Any:
        try:
            if cluster:
                return redis.asyncio.cluster.RedisCluster.from_url(self.url, **self._options)
            options = {"max_connections": _MOST_CONNECTIONS, **self._options}
            pool = _Pool.from_url(self.url, **options)
            return redis.asyncio.Redis.from_pool(pool)
        except (ValueError, TypeError, RedisClusterException) as error:
            raise ConfigurationError(
                f"REDIS_URL {without_password(self.url)!r} or REDIS_PARAMS: {error}"
            ) from error

    async def retry_until_available(
        self, work: Callable[[], Awaitable[T]], ending: asyncio.Event | None = None
    ) -> T:
        """The result of `work`, begun anew while the server is away; in the end raises EngineUnavailable.

        That is after a minute; with `ending` only three seconds after that was set, however long it takes till then.
        """
        backoff = Backoff(SHUTDOWN_SECONDS if ending else _RETRY_SECONDS, ending)
        while True:
            try:
                return await work()
            except UNAVAILABLE as error:
                if backoff.is_over:
                    raise EngineUnavailable(f"the engine stays away: {error}") from error
                await backoff.pause()

    async def hashes(self, keys: Iterable[str]) -> list[dict[bytes, bytes]]:
        """HGETALL of several keys."""
        commands = [Command(key, ("HGETALL", key)) for key in keys]
        return _replies(["HGETALL"] * len(commands), await self._send(commands))

    async def close(self) -> None:
        await self.client.aclose()


_SCRAPY_REDIS_ONLY = frozenset({"redis_cls", "encoding", "decode_responses"})


def without_password(url: str) -> str:
    """A URL for a message: without user and password."""
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://...@{tail}" if at else url


def _counted(call: Call) -> Sequence[str | bytes | int | float]:
    return (len(call.keys), *call.keys, *call.arguments)


def _replies(names: Sequence[str], replies: list[Any], some: bool = False) -> list[Any]:
    """The replies to commands of these names; raises the exceptions among them, but for `some` those of UNAVAILABLE."""
    for place, reply in enumerate(replies):
        if isinstance(reply, Exception):
            error = _engine_error(names[place], reply) if isinstance(reply, ResponseError) else reply
            if not (some and isinstance(error, UNAVAILABLE)):
                raise error
            replies[place] = error
    return replies


def _engine_error(name: str, error: ResponseError) -> EngineError:
    text = str(error)
    if isinstance(error, OutOfMemoryError):
        return EngineFull(f"{name}: {text}")
    passing = isinstance(error, _REFUSING_FOR_NOW) or text.startswith(_PASSING)
    return (EngineUnavailable if passing else EngineError)(f"{name}: {text}")
