"""The connection of one process to the engine, and to one of the crawls there.

The client of the engine is slow to import, so it is imported where it is used, at best while an embedded server starts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from webcrawl.config import EngineConfig, FrontierConfig
from webcrawl.engine.keys import CRAWLS, Keys
from webcrawl.errors import ConfigurationError, EngineUnavailable

if TYPE_CHECKING:
    from webcrawl.engine.client import Engine
    from webcrawl.engine.server_url import ServerURL
    from webcrawl.frontier import Crawl, Frontier
    from webcrawl.frontier.bloom import BloomSeen
    from webcrawl.frontier.cold_hosts import ColdHosts
    from webcrawl.frontier.cold_seen import ColdSeen
    from webcrawl.frontier.tails import Tails
    from webcrawl.stores.sealed.run_list import SealedDuplicates

logger = logging.getLogger(__name__)

T = TypeVar("T")

_WORKER_SECONDS = 12.0
"""Seconds without a heartbeat after which a worker counts as dead. It sends one every two seconds."""
_SLOW = ("webcrawl.engine.client", "webcrawl.frontier.tails")
"""Modules to import while an embedded server starts."""
_KEEPER_SECONDS = 2.0
"""Seconds between two checks whether the keeper of an embedded server lives."""


class EngineServer:
    """The engine's server: the server of REDIS_URL, or an embedded server in DATA_DIR, which this process starts."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self._url = None if config.url is None else _parsed(config.url)
        self._embedded: Any = None
        self._next_look: asyncio.TimerHandle | None = None

    def __str__(self) -> str:
        return "the server of REDIS_URL" if self.config.url else f"DATA_DIR {str(self.config.data_dir)!r}"

    @property
    def is_embedded(self) -> bool:
        return self.config.url is None

    @property
    def suits_scrapy_redis(self) -> bool:
        """Whether scrapy-redis can connect to the server of REDIS_URL."""
        return bool(self._url and self._url.is_single) or "redis_cls" in self.config.parameters

    @property
    def is_exclusive(self) -> bool:
        """Whether the server is embedded, and no other process or crawl used it when this process started."""
        return self._embedded is not None and bool(self._embedded.first)

    async def start(self, to_crawl: bool) -> str:
        """The URL to connect to; raises EngineUnavailable, EngineError.

        `to_crawl`: other users cannot start before `admit_others`, if this process is the first.
        """
        if self.config.url is not None:
            return self.config.url
        try:
            from webcrawl.engine.embedded import EmbeddedEngine
        except ImportError as error:
            raise EngineUnavailable(
                "no embedded engine on this platform: set REDIS_URL to a Valkey or Redis server, version 7 or newer"
            ) from error
        self._embedded = EmbeddedEngine(self.config.data_dir)
        for pause in self._embedded.starting(clears_up=to_crawl):
            await asyncio.sleep(pause)
        self._look_after_keeper()
        return str(self._embedded.url)

    def admit_others(self) -> None:
        """Let other users start."""
        self._embedded.admit_others()

    def stop(self) -> None:
        """Leave an embedded server; the last process to leave stops it."""
        if self._next_look is not None:
            self._next_look.cancel()
        if self._embedded is not None:
            self._embedded.stop()

    def _look_after_keeper(self) -> None:
        """Replace a keeper that was killed: nobody else would start its server again, or stop it."""
        self._embedded.keep()
        loop = asyncio.get_running_loop()
        self._next_look = loop.call_later(_KEEPER_SECONDS, self._look_after_keeper)


class Connection:
    """Engine, frontier and crawl record, which `connect` makes."""

    engine: Engine
    frontier: Frontier
    crawl: Crawl
    tails: Tails
    cold: ColdSeen
    cold_hosts: ColdHosts
    sealed: SealedDuplicates | None
    """The part of the index of duplicates that is in files; None without a store that all workers share."""

    def __init__(
        self,
        config: EngineConfig,
        frontier: FrontierConfig,
        spill_uri: str | None,
        object_stores: Mapping[str, str],
        *,
        started_together: int = 1,
    ) -> None:
        """`started_together`: the number of requests that a host may get at once."""
        self.server = EngineServer(config)
        self.keys = Keys(frontier.crawl_id, frontier.shards, frontier.unit)
        self.worker = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
        """The name of this process in the engine."""
        self.bloom: BloomSeen | None = None
        self.is_open = False
        self.ending = asyncio.Event()
        """Once it is set, this process no longer waits for the engine."""
        self._frontier_config = frontier
        self._spill_uri = spill_uri
        self._object_stores = object_stores
        self._started_together = started_together

    async def connect(self, *, to_crawl: bool = False) -> None:
        """Start or reach the engine; raises EngineUnavailable, EngineError.

        `to_crawl`: keep other processes from starting until `server.admit_others`, if this process is the first.
        """
        starting = asyncio.create_task(self.server.start(to_crawl))
        await asyncio.sleep(0)
        for module in _SLOW:
            import_module(module)
        from webcrawl.engine.client import Engine

        url = await starting
        engine = Engine(url, self.server.config.parameters, embedded=self.server.is_embedded)
        await engine.check()
        self._begin(engine)
        self.is_open = True

    def share(self, other: Connection) -> None:
        """Use the engine of another connection, which closes it."""
        self._begin(other.engine)

    def _begin(self, engine: Engine) -> None:
        from webcrawl.frontier import Crawl, Frontier, HostLimits
        from webcrawl.policies.traffic import Traffic

        config = self._frontier_config
        self.engine = engine
        self.frontier = Frontier(
            engine,
            self.keys,
            self.worker,
            lease_seconds=config.lease_seconds,
            max_attempts=config.max_attempts,
            low_share=config.low_share,
            started_together=self._started_together,
            host_limits=HostLimits(config.host_max_pages or None, config.host_max_bytes or None),
            weight=config.weight,
            traffic=Traffic(config.traffic) if config.traffic else None,
        )
        self.crawl = Crawl(engine, self.keys, self.worker, min(config.lease_seconds, _WORKER_SECONDS))
        self._open_stores()

    async def adopt_layout(self) -> bool:
        """Use the crawl's own FRONTIER_SHARDS and POLITENESS_UNIT, whatever is set; False when there is no such crawl.

        For commands that look at a crawl: with other values they would look for a host in the wrong shard.
        """
        keys = await self.crawl.begun_with()
        if keys is None:
            return False
        if keys != self.keys:
            self._use(keys)
        return True

    async def crawls(self) -> list[str]:
        """The names of all crawls in the engine."""
        return sorted(name.decode() for name in await self.engine.client.hkeys(CRAWLS))

    def use(self, crawl: str) -> None:
        """Work on another crawl of the engine."""
        self._use(replace(self.keys, crawl=crawl))

    def _use(self, keys: Keys) -> None:
        self.keys = keys
        self.frontier = replace(self.frontier, keys=keys)
        self.crawl = replace(self.crawl, keys=keys)
        self._open_stores()

    def _open_stores(self) -> None:
        """Set what the crawl keeps outside of the engine: tails, idle hosts, and parts of the seen set or all of it."""
        from webcrawl.frontier.bloom import BloomSeen
        from webcrawl.frontier.cold_hosts import ColdHosts
        from webcrawl.frontier.cold_seen import ColdSeen
        from webcrawl.frontier.tails import Tails
        from webcrawl.stores.sealed.run_list import SealedDuplicates

        self.tails = Tails(self.engine, self.keys, self.crawl, self._spill_uri, self._object_stores)
        self.cold = self.frontier.cold = ColdSeen(self.tails)
        self.cold_hosts = self.frontier.cold_hosts = ColdHosts(self.tails)
        self.sealed = None
        if self._spill_uri is not None:
            copies = self.server.config.data_dir / "duplicates" / self.keys.crawl
            self.sealed = SealedDuplicates(
                self.engine, self.keys, self._spill_uri, self._object_stores, copies
            )
        if self._frontier_config.bloom:
            self.bloom = BloomSeen(self.server.config.data_dir / "seen" / f"{self.keys.crawl}.bloom")

    @property
    def link_memory(self) -> Path:
        """The folder in which workers on this machine keep the links of pages; see webcrawl.frontier.link_memory."""
        return self.server.config.data_dir / "importance" / self.keys.crawl

    async def begin_tails(self) -> None:
        """Apply FRONTIER_HOT_URLS and FRONTIER_ORDER to the crawl's queues; raises what `Tails.check` raises."""
        await self.tails.check()
        if self.sealed is None and await self.engine.client.exists(self.keys.own("runs")):
            raise ConfigurationError(
                f"crawl {self.keys.crawl!r} has a part of its duplicates in a store: set FRONTIER_SPILL_URI to it"
            )
        if self._spill_uri is None and self._frontier_config.hot_urls:
            logger.info("FRONTIER_SPILL_URI is not set: the engine keeps queues of any length in memory.")
        hot_urls = self._frontier_config.hot_urls if self._spill_uri else 0
        config = self._frontier_config
        traffic = json.dumps(config.traffic) if config.traffic else ""
        await self.crawl.configure(
            hot_urls, config.order, importance=config.importance != "off", traffic=traffic
        )

    async def clear(self, *, keeps_runs: bool = False) -> None:
        """Delete the crawl from the engine, whatever shards it has.

        `keeps_runs`: leave the sealed runs of the index of duplicates, because a checkpoint that is being restored may
        refer to them.
        """
        from webcrawl.frontier.link_memory import forget

        if self.sealed is not None and not keeps_runs:
            await self.sealed.clear()
        begun, tails = await self.crawl.begun_with(), await self.crawl.tails()
        await replace(self.frontier, keys=begun or self.keys).clear()
        await self.tails.clear(tails)
        if self.bloom is not None:
            self.bloom.clear()
        forget(self.link_memory)
        # last: the crawl must not begin with another number of shards before all is deleted
        await self.crawl.forget()

    async def retry_until_available(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work`, which is retried while the engine is unavailable, until `ending` is set.

        Raises EngineUnavailable if the engine is still unavailable then.
        """
        return await self.engine.retry_until_available(work, self.ending)

    async def close(self) -> None:
        """Disconnect; the last process to do so stops an embedded engine."""
        if self.is_open:
            self.is_open = False
            await self.engine.close()
        self.server.stop()


def _parsed(url: str) -> ServerURL:
    from webcrawl.engine.server_url import ServerURL

    return ServerURL.parse(url)
