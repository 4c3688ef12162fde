"""The client of the Valkey or Redis >= 7 behind a crawl: a server, a cluster, or a primary with sentinels."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import redis.asyncio
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
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

from webcrawl.config.passwords import without_password
from webcrawl.engine.backoff import SHUTDOWN_SECONDS, Backoff
from webcrawl.engine.cluster import EngineCluster
from webcrawl.engine.connections import ConnectionPool
from webcrawl.engine.replication import Command
from webcrawl.engine.scripts import Call, script_header, script_source
from webcrawl.engine.sentinel import SentinelPrimary
from webcrawl.engine.server_url import ServerURL
from webcrawl.errors import ConfigurationError, EngineError, EngineFull, EngineUnavailable

_TEMPORARY = (OutOfMemoryError, ReadOnlyError, MasterDownError, ClusterDownError, TryAgainError)

UNAVAILABLE = (
    RedisConnectionError,
    RedisTimeoutError,
    OSError,
    EngineUnavailable,
    ClusterError,
    RedisClusterException,
    *_TEMPORARY,
)
"""Errors raised while the server is unavailable, loading or full. The call may succeed later."""

_TEMPORARY_CODES = ("LOADING", "BUSY", "MISCONF", "NOREPLICAS")

_OLDEST_VERSION = (7, 0)
_RETRY_SECONDS = 60.0
_MOST_CONNECTIONS = 16
_SCRAPY_REDIS_ONLY = frozenset({"redis_cls", "encoding", "decode_responses"})

T = TypeVar("T")


class Memory(NamedTuple):
    """Bytes, over all primaries."""

    used: int
    limit: int
    """The sum of `maxmemory`; 0 if a server has no limit."""


class Engine:
    """Runs scripts and commands on the servers that a URL names; see webcrawl.engine.server_url.

    If the server belongs to a cluster, `check` joins the cluster. Use `client`, redis-py's asyncio client, for commands
    that only read. Replies are bytes.
    """

    def __init__(
        self, url: str, parameters: Mapping[str, Any] | None = None, *, embedded: bool = False
    ) -> None:
        self.url = url
        self.embedded = embedded
        """Whether the server runs on this machine, so that a power failure stops its workers too."""
        self._options = {
            key: value for key, value in (parameters or {}).items() if key not in _SCRAPY_REDIS_ONLY
        }
        self._options["decode_responses"] = False
        # redis-py must not silently repair a connection that is lost in use; see ConnectionPool
        self._options.setdefault("retry", Retry(NoBackoff(), 0))
        self._servers = ServerURL.parse(url)
        self._group: EngineCluster | SentinelPrimary | None = None
        """The servers that take over from each other; None for one server without replicas."""
        self.client: Any = self._connect(0)

    async def check(self) -> None:
        """Raises EngineUnavailable or EngineError unless a supported server answers; of several, one is enough."""
        failures = []
        for number in range(max(1, len(self._servers.addresses)) if self._group is None else 1):
            try:
                if number:
                    await self.client.aclose()
                    self.client = self._connect(number)
                return await self._check_server(number)
            except UNAVAILABLE as error:
                failures.append(error)
        raise EngineUnavailable(
            f"no Valkey or Redis server at REDIS_URL {without_password(self.url)}: "
            f"{'; '.join(map(str, failures))}. Start it, or leave REDIS_URL empty to use the embedded server."
        ) from failures[-1]

    async def _check_server(self, number: int) -> None:
        try:
            info = await self.client.info("server")
            if isinstance(self._group, SentinelPrimary):
                await self._group.check()
            elif self._group is None:
                if (await self.client.info("cluster")).get("cluster_enabled"):
                    await self._join_cluster()
                elif not self._servers.is_single:
                    host, port = self._servers.addresses[number]
                    raise ConfigurationError(
                        f"REDIS_URL {without_password(self.url)!r} names several servers, but {host}:{port} belongs to "
                        "no cluster: name one server, or sentinels (redis+sentinel://host,host/primary)"
                    )
        except UNAVAILABLE:
            raise
        except TypeError as error:  # redis-py rejects an unknown option at the first connection
            raise ConfigurationError(f"REDIS_PARAMS: {error}") from error
        except RedisError as error:
            raise EngineError(
                f"the server at REDIS_URL {without_password(self.url)} refuses the connection: {error}"
            ) from error
        version = str(info["redis_version"])
        if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST_VERSION:
            raise EngineError(
                f"the server at REDIS_URL {without_password(self.url)} has version {version}; 7.0 or newer is required"
            )

    def script(self, name: str) -> tuple[str, str]:
        """Returns (SHA-1, text) of a script."""
        return script_source(name)

    async def run(self, call: Call) -> Any:
        """Runs one script and returns its reply, with the names of its fields; see webcrawl.engine.scripts."""
        return (await self.run_all([call]))[0]

    async def run_all(self, calls: Sequence[Call], *, some: bool = False) -> list[Any]:
        """Runs scripts, with one round trip to each server; returns replies in the order of the calls.

        With `some`, an exception of UNAVAILABLE is not raised, but returned in place of the missing reply.
        """
        replies = await self._send([self._command(call) for call in calls])
        while new := [index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)]:
            # The first run of a script sends its text, which the server keeps; another server asks for it again.
            first = {calls[index].script: index for index in reversed(new)}
            again = [self._command(calls[index], index == first[calls[index].script]) for index in new]
            for index, reply in zip(new, await self._send(again), strict=True):
                replies[index] = reply
        replies = _replies([call.script for call in calls], replies, some)
        return [
            reply if isinstance(reply, Exception) else script_header(call.script).unpacked(reply)
            for call, reply in zip(calls, replies, strict=True)
        ]

    def _command(self, call: Call, with_text: bool = False) -> Command:
        checksum, text = self.script(call.script)
        name, script = ("EVAL", text) if with_text else ("EVALSHA", checksum)
        return Command(call.keys[0], (name, script, len(call.keys), *call.keys, *call.arguments))

    async def change(self, key: str, command: str, *arguments: str | bytes | int) -> Any:
        """Runs one command that writes to `key`, as safely as a script."""
        return (await self.change_all([Command(key, (command, key, *arguments))]))[0]

    async def change_all(self, commands: Sequence[Command]) -> list[Any]:
        """Runs several commands that write, with one round trip to each server."""
        return _replies([str(command.words[0]) for command in commands], await self._send(commands))

    @property
    def is_cluster(self) -> bool:
        """Whether keys are on several servers; a script can use only the keys of one shard."""
        return isinstance(self._group, EngineCluster)

    @property
    def connections(self) -> int:
        """Number of connections that were made to a single server. A new connection may lead to a restarted server."""
        return getattr(self.client.connection_pool, "made", 0) if not self.is_cluster else 0

    async def servers(self) -> list[str]:
        """Identifies the servers that hold the data; the result changes after a restart, failover or move of slots."""
        if isinstance(self._group, EngineCluster):
            return await self._group.servers()
        return [str((await self.client.info("server"))["run_id"])]

    def server_of(self, key: str) -> str:
        """Returns the address of the primary that has a key, as last known; "" for a single server."""
        if not self.is_cluster:
            return ""
        nodes = self.client.nodes_manager
        return str(nodes.get_node_from_slot(self.client.keyslot(key)).name)

    async def age(self) -> float:
        """Returns the least number of seconds since the server was started; infinite if replicas can take over."""
        if self._group is not None:
            return math.inf
        # the difference of two clocks of whole seconds is up to one second too long
        return max(0.0, float((await self.client.info("server"))["uptime_in_seconds"]) - 1.0)

    async def memory(self) -> Memory:
        """Asks all primaries; raises an error of UNAVAILABLE."""
        targets = {"target_nodes": self.client.PRIMARIES} if self.is_cluster else {}
        info = await self.client.info("memory", **targets)
        servers = [info] if "used_memory" in info else list(info.values())
        limits = [int(server["maxmemory"]) for server in servers]
        return Memory(
            sum(int(server["used_memory"]) for server in servers), sum(limits) if all(limits) else 0
        )

    async def _send(self, commands: Sequence[Command]) -> list[Any]:
        """Returns replies in order, with an exception for each command that failed."""
        try:
            if self._group is not None:
                return await self._group.send(commands)
            words = [command.words for command in commands]
            replies: list[Any] = await self.client.connection_pool.exchange(words)
        except UNAVAILABLE as error:
            return [error] * len(commands)
        return [
            reply if isinstance(reply, Exception) else self._parsed(command.words[0], reply)
            for command, reply in zip(commands, replies, strict=True)
        ]

    def _parsed(self, name: object, reply: Any) -> Any:
        """Returns a reply as redis-py's client returns it, such as a dict for HGETALL."""
        if name == "EVALSHA":
            return reply
        parse = self.client.response_callbacks.get(name)
        return reply if parse is None else parse(reply)

    async def _join_cluster(self) -> None:
        """Continues with the cluster that the server belongs to."""
        server = self.client
        nodes = [ClusterNode(host, port) for host, port in self._servers.addresses]
        options = {**self._options, **self._servers.options, "ssl": self._servers.tls}
        try:
            self.client = RedisCluster(startup_nodes=nodes, **options)
        except (ValueError, TypeError, RedisClusterException) as error:
            raise self._wrong(error) from error
        self._group = EngineCluster(self.client)
        await server.aclose()

    def _connect(self, number: int) -> Any:
        """Returns a client of the sentinels' primary, or of the server whose address has this number."""
        servers = self._servers
        options = {"max_connections": _MOST_CONNECTIONS, **self._options}
        try:
            if servers.primary is not None:
                self._group = SentinelPrimary(servers, options)
                return self._group.client
            options |= servers.options
            if servers.addresses:
                options["host"], options["port"] = servers.addresses[number]
                options["connection_class"] = SSLConnection if servers.tls else Connection
            else:
                options["connection_class"] = UnixDomainSocketConnection
            return redis.asyncio.Redis.from_pool(ConnectionPool(**options))
        except (ValueError, TypeError) as error:
            raise self._wrong(error) from error

    def _wrong(self, error: Exception) -> ConfigurationError:
        return ConfigurationError(f"REDIS_URL {without_password(self.url)!r} or REDIS_PARAMS: {error}")

    async def retry_until_available(
        self, work: Callable[[], Awaitable[T]], ending: asyncio.Event | None = None
    ) -> T:
        """Returns the result of `work`, repeated while the server is unavailable.

        Raises EngineUnavailable after a minute. With `ending`, retries until three seconds after that event is set.
        """
        backoff = Backoff(SHUTDOWN_SECONDS if ending else _RETRY_SECONDS, ending)
        while True:
            try:
                return await work()
            except UNAVAILABLE as error:
                if backoff.is_over:
                    raise EngineUnavailable(f"the engine is still unavailable: {error}") from error
                await backoff.pause()

    async def hashes(self, keys: Iterable[str]) -> list[dict[bytes, bytes]]:
        """Runs HGETALL for several keys."""
        commands = [Command(key, ("HGETALL", key)) for key in keys]
        return _replies(["HGETALL"] * len(commands), await self._send(commands))

    async def any_exist(self, groups: Sequence[Sequence[str]]) -> list[bool]:
        """Whether any key of each group exists; the keys of a group are in one slot."""
        commands = [Command(group[0], ("EXISTS", *group)) for group in groups]
        return [number > 0 for number in _replies(["EXISTS"] * len(commands), await self._send(commands))]

    @asynccontextmanager
    async def separate(self) -> AsyncIterator[Any]:
        """Opens a client with connections of its own, for calls that wait long; not for a cluster.

        Those of the engine must not be lost there: their loss tells a worker that the engine may have been restarted.
        """
        if isinstance(self._group, SentinelPrimary):
            group = SentinelPrimary(self._servers, {"max_connections": 1, **self._options})
            try:
                yield group.client
            finally:
                await group.close()
            return
        pool = self.client.connection_pool
        options = {"max_connections": 1, "connection_class": pool.connection_class, **pool.connection_kwargs}
        client = redis.asyncio.Redis.from_pool(ConnectionPool(**options))
        try:
            yield client
        finally:
            await client.aclose()

    async def close(self) -> None:
        if isinstance(self._group, SentinelPrimary):
            await self._group.close()
        else:
            await self.client.aclose()


def _replies(names: Sequence[str], replies: list[Any], some: bool = False) -> list[Any]:
    """Returns replies to these commands; raises the first exception, with `some` only if it is not of UNAVAILABLE."""
    for index, reply in enumerate(replies):
        if isinstance(reply, Exception):
            error = _engine_error(names[index], reply) if isinstance(reply, ResponseError) else reply
            if not (some and isinstance(error, UNAVAILABLE)):
                raise error
            replies[index] = error
    return replies


def _engine_error(name: str, error: ResponseError) -> EngineError:
    text = str(error)
    if isinstance(error, OutOfMemoryError):
        return EngineFull(f"{name}: {text}")
    temporary = isinstance(error, _TEMPORARY) or text.startswith(_TEMPORARY_CODES)
    return (EngineUnavailable if temporary else EngineError)(f"{name}: {text}")
