"""The client of the Valkey (or Redis >= 7) server or cluster behind a crawl, and its Lua scripts."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, TypeVar

import redis.asyncio
import redis.asyncio.cluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    ClusterDownError,
    ConnectionError as RedisConnectionError,
    MasterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError as RedisTimeoutError,
    TryAgainError,
)

from webcrawl.errors import ConfigurationError, EngineError, EngineUnavailable

_REFUSING_FOR_NOW = (OutOfMemoryError, ReadOnlyError, MasterDownError, ClusterDownError, TryAgainError)

AWAY = (RedisConnectionError, RedisTimeoutError, OSError, EngineUnavailable, *_REFUSING_FOR_NOW)
"""What is raised while the server is away, loading or full: worth trying again, nothing was refused for good."""

_PASSING = ("LOADING", "BUSY", "MISCONF")

_OLDEST = (7, 0)
_PATIENCE_SECONDS = 60.0

T = TypeVar("T")


class Call(NamedTuple):
    """One run of a script: its name in frontier/lua, its keys and its arguments."""

    script: str
    keys: Sequence[str]
    arguments: Sequence[str | bytes | int | float]


@cache
def script_source(name: str) -> tuple[str, str]:
    """(SHA-1, text) of a script. Read through importlib, since a deployed egg is imported zipped."""
    folder = resources.files("webcrawl.frontier") / "lua"
    text = (folder / "common.lua").read_text() + "\n" + (folder / f"{name}.lua").read_text()
    return hashlib.sha1(text.encode()).hexdigest(), text


class Engine:
    """Runs scripts and plain commands; knows a cluster from a single server.

    `client` is redis-py's asyncio client for whatever has no script. Replies are bytes.
    """

    def __init__(
        self, url: str, parameters: Mapping[str, Any] | None = None, *, cluster: bool = False
    ) -> None:
        self.url = url
        self._cluster = cluster
        options = {key: value for key, value in (parameters or {}).items() if key not in _SCRAPY_REDIS_ONLY}
        options["decode_responses"] = False
        # a lost connection must be seen: who believes the server to know something has to say it again
        options.setdefault("retry", Retry(NoBackoff(), 0))
        try:
            if cluster:
                self.client: Any = redis.asyncio.cluster.RedisCluster.from_url(url, **options)
            else:
                self.client = redis.asyncio.Redis.from_url(url, **options)
        except (ValueError, TypeError) as error:
            raise ConfigurationError(
                f"REDIS_URL {without_password(url)!r} or REDIS_PARAMS: {error}"
            ) from error

    async def check(self) -> None:
        """Raise EngineUnavailable or EngineError unless a server new enough answers."""
        try:
            info = await self.client.info("server")
        except AWAY as error:
            raise EngineUnavailable(
                f"no Valkey or Redis server at REDIS_URL {without_password(self.url)}: {error}"
            ) from error
        except TypeError as error:  # an unknown option shows when the first connection is made
            raise ConfigurationError(f"REDIS_PARAMS: {error}") from error
        except RedisError as error:
            raise EngineError(f"the server at {without_password(self.url)} refuses: {error}") from error
        versions = [str(node["redis_version"]) for node in (info.values() if self._cluster else [info])]
        for version in versions:
            if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
                raise EngineError(
                    f"the server at {without_password(self.url)} is {version}: 7.0 or newer is needed"
                )

    async def run(self, call: Call) -> Any:
        """Run one script and return its reply."""
        sha, text = script_source(call.script)
        try:
            return await self.client.evalsha(sha, len(call.keys), *call.keys, *call.arguments)
        except NoScriptError:
            return await self._first(call, text)
        except ResponseError as error:
            raise _engine_error(call.script, error) from error

    async def run_all(self, calls: Sequence[Call]) -> list[Any]:
        """Run scripts of different shards, on one server in a single round trip; replies in the order of the calls."""
        if len(calls) < 2 or self._cluster:
            return list(await asyncio.gather(*(self.run(call) for call in calls)))
        pipeline = self.client.pipeline(transaction=False)
        for call in calls:
            pipeline.evalsha(script_source(call.script)[0], len(call.keys), *call.keys, *call.arguments)
        replies = await pipeline.execute(raise_on_error=False)
        for place, reply in enumerate(replies):
            if isinstance(reply, NoScriptError):
                replies[place] = await self.run(calls[place])
            elif isinstance(reply, ResponseError):
                raise _engine_error(calls[place].script, reply) from reply
            elif isinstance(reply, Exception):
                raise reply
        return list(replies)

    async def _first(self, call: Call, text: str) -> Any:
        """The first run of a script on a server: sends its text, which the server keeps."""
        try:
            return await self.client.eval(text, len(call.keys), *call.keys, *call.arguments)
        except ResponseError as error:
            raise _engine_error(call.script, error) from error

    async def patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work`, begun anew while the server is away, for a minute at most."""
        pause, deadline = 0.1, time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return await work()
            except AWAY:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, 5.0)

    async def hashes(self, keys: Iterable[str]) -> list[dict[bytes, bytes]]:
        """HGETALL of several keys."""
        return list(await asyncio.gather(*(self.client.hgetall(key) for key in keys)))

    async def close(self) -> None:
        await self.client.aclose()


_SCRAPY_REDIS_ONLY = frozenset({"redis_cls", "encoding", "decode_responses"})


def without_password(url: str) -> str:
    """A URL for a message: without user and password."""
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://...@{tail}" if at else url


def _engine_error(script: str, error: ResponseError) -> EngineError:
    text = str(error)
    passing = isinstance(error, _REFUSING_FOR_NOW) or text.startswith(_PASSING)
    return (EngineUnavailable if passing else EngineError)(f"{script}: {text}")
