"""The connection of one process to the engine, and to its crawl there."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from webcrawl.config import EngineConfig, FrontierConfig
from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.keys import CRAWLS, Keys
from webcrawl.engine.server_url import ServerURL
from webcrawl.errors import EngineUnavailable
from webcrawl.frontier import Crawl, Frontier, HostLimits
from webcrawl.frontier.bloom import BloomSeen
from webcrawl.frontier.link_memory import forget
from webcrawl.frontier.ruled_limits import review_rules
from webcrawl.frontier.tails import Tails
from webcrawl.hosts.turns import Turns

logger = logging.getLogger(__name__)

T = TypeVar("T")

_WORKER_SECONDS = 12.0
"""Seconds without a heartbeat after which a worker counts as dead. It sends one every two seconds."""
_KEEPER_SECONDS = 2.0
"""How often the keeper of an embedded server is looked after."""


@dataclass(frozen=True, slots=True)
class JoinedCrawl:
    """The state of a crawl when this process joined it."""

    has_urls: bool = False
    """URLs had been added before."""
    resumed: bool = False
    """It had URLs, and no worker was alive."""
    finished: bool = False
    """It was resumed, and nothing was left to crawl."""
    paused: bool = False
    """An operator had paused it."""


class Server:
    """The engine's server: the one of REDIS_URL, or an embedded one in DATA_DIR, which this process starts."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self._url = None if config.url is None else ServerURL.parse(config.url)
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
        return bool(self._url and self._url.names_one_server) or "redis_cls" in self.config.parameters

    @property
    def is_exclusive(self) -> bool:
        """Whether it is embedded and no other process or crawl used it when this one started."""
        return self._embedded is not None and bool(self._embedded.first)

    async def start(self, to_crawl: bool) -> str:
        """The URL to connect to; raises EngineUnavailable, EngineError.

        `to_crawl`: other users cannot start before `admit_others`, if this one is the first.
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
    """Engine, frontier and crawl record. `connect` makes them; `open` also begins the crawl or resumes it."""

    engine: Engine
    frontier: Frontier
    crawl: Crawl
    tails: Tails

    def __init__(
        self,
        config: EngineConfig,
        frontier: FrontierConfig,
        turns: Turns,
        spill_uri: str | None,
        object_stores: Mapping[str, str],
    ) -> None:
        self.server = Server(config)
        self.keys = Keys(frontier.crawl_id, frontier.shards, frontier.unit)
        self.worker = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
        """The name of this process in the engine."""
        self.bloom: BloomSeen | None = None
        self.joined = JoinedCrawl()
        """Set by `open`."""
        self.is_open = False
        self._frontier_config = frontier
        self._turns = turns
        self._spill_uri = spill_uri
        self._object_stores = object_stores
        self._clears_on_close = False

    async def connect(self, *, to_crawl: bool = False) -> None:
        """Start or reach the engine; raises EngineUnavailable, EngineError.

        `to_crawl`: keep other processes from starting until `open` has cleared up after dead ones.
        """
        url = await self.server.start(to_crawl)
        engine = Engine(url, self.server.config.parameters, embedded=self.server.is_embedded)
        await engine.check()
        self._begin(engine)
        self.is_open = True

    def share(self, other: Connection) -> None:
        """Use the engine to which another connection is connected, and which that one closes."""
        self._begin(other.engine)

    def _begin(self, engine: Engine) -> None:
        config = self._frontier_config
        self.engine = engine
        self.frontier = Frontier(
            engine,
            self.keys,
            self.worker,
            lease_seconds=config.lease_seconds,
            max_attempts=config.max_attempts,
            low_share=config.low_share,
            started_together=self._turns.config.concurrency,
            host_limits=HostLimits(config.host_max_pages or None, config.host_max_bytes or None),
            weight=config.weight,
        )
        self.crawl = Crawl(engine, self.keys, self.worker, min(config.lease_seconds, _WORKER_SECONDS))
        self.tails = Tails(engine, self.keys, self.crawl, self._spill_uri, self._object_stores)
        self.bloom = self._make_bloom()

    async def adopt_layout(self) -> bool:
        """Use the crawl's own FRONTIER_SHARDS and POLITENESS_UNIT, whatever is set; False when there is no such crawl.

        For commands that look at a crawl: with others they would look for a host in the wrong place.
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
        self.tails = Tails(self.engine, keys, self.crawl, self._spill_uri, self._object_stores)
        self.bloom = self._make_bloom()

    def _make_bloom(self) -> BloomSeen | None:
        if not self._frontier_config.bloom:
            return None
        return BloomSeen(self.server.config.data_dir / "seen" / f"{self.keys.crawl}.bloom")

    @property
    def link_memory(self) -> Path:
        """The folder in which workers on this machine keep the links of pages; see webcrawl.frontier.link_memory."""
        return self.server.config.data_dir / "importance" / self.keys.crawl

    async def open(self) -> None:
        """Connect, and begin the crawl or resume it.

        Raises ConfigurationError when the crawl was begun with other settings, EngineUnavailable, EngineError.
        """
        await self.connect(to_crawl=True)
        try:
            self.joined = await self.engine.retry_until_available(self._join)
        except UNAVAILABLE as error:
            raise EngineUnavailable(
                f"the engine became unavailable while the crawl began: {error}"
            ) from error
        self._clears_on_close = not self._frontier_config.persist

    async def begin_tails(self) -> None:
        """Apply FRONTIER_HOT_URLS and FRONTIER_ORDER to the crawl's queues; raises what `Tails.check` raises."""
        await self.tails.check()
        if self._spill_uri is None and self._frontier_config.hot_urls:
            logger.info("FRONTIER_SPILL_URI is not set: the engine keeps queues of any length in memory.")
        hot_urls = self._frontier_config.hot_urls if self._spill_uri else 0
        config = self._frontier_config
        await self.crawl.configure(hot_urls, config.order, importance=config.importance != "off")

    async def clear(self) -> None:
        """Delete the crawl from the engine, whatever shards it has."""
        begun, tails = await self.crawl.begun_with(), await self.crawl.tails()
        await replace(self.frontier, keys=begun or self.keys).clear()
        await self.tails.clear(tails)
        if self.bloom is not None:
            self.bloom.clear()
        forget(self.link_memory)
        # last: the crawl must not begin with another number of shards before all is deleted
        await self.crawl.forget()

    async def retry_until_available(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work`, which is retried while the engine is unavailable, until the crawl ends.

        Raises EngineUnavailable when the crawl ends and the engine is still unavailable.
        """
        return await self.engine.retry_until_available(work, self._turns.ending)

    async def close(self) -> None:
        """Disconnect; the last process to do so stops an embedded engine.

        With SCHEDULER_PERSIST off a crawl that was opened is deleted first.
        """
        if self.is_open:
            self.is_open = False
            if self._clears_on_close:
                await self.clear()
            await self.engine.close()
        self.server.stop()

    async def _review_limits(self) -> None:
        """Check hosts with spent budgets again if their limits, or the rules that limit pages, have changed."""
        rules = self._turns.rules
        if await self.crawl.limits_changed(self.frontier.host_limits, rules.limits_pages if rules else ""):
            pages_of = rules.max_pages if rules else lambda _: None
            await review_rules(self.frontier, pages_of, range(self.keys.shards))
            await self.frontier.review()

    async def _join(self) -> JoinedCrawl:
        if self._frontier_config.flush_on_start:
            await self.clear()
        await self.crawl.begin()
        await self.begin_tails()
        await self._review_limits()
        if self.server.is_exclusive:
            # no other process uses this engine: every worker and lease it knows is dead
            await self.crawl.workers.forget()
            await self.frontier.reap(everything=True, delay=self._turns.config.delay)
            self.server.admit_others()
        counts = await self.frontier.counts()
        has_urls = counts.added > 0
        resumed = has_urls and not await self.crawl.workers.names()
        return JoinedCrawl(
            has_urls, resumed, finished=resumed and not counts.open, paused=await self.crawl.paused()
        )
