"""Reads start URLs from a scrapy-redis spider's list while it works, not only when it is idle.

The worker claims the start URLs that it takes, until the frontier has them. Two keys in the slot of the list hold the
claims:

    {LIST}:claimed:CRAWL          SET   workers that have claims
    {LIST}:claimed:CRAWL:WORKER   LIST  the entries that the worker took last: of a list or set, or "SCORE entry"

The braces are LIST's own if it has a hash tag. The claims of a dead worker are put back into the list.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Literal, cast

from scrapy import Request
from scrapy.crawler import Crawler

from webcrawl.crawler.session import Session
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import normalize
from webcrawl.worker.worker import Worker

logger = logging.getLogger(__name__)

_FEED_SECONDS = 0.5
_LOOK_FOR_DEAD_EVERY = 10
_ENDS_SECONDS = 5.0
"""Seconds to wait for a pending read of the list when the spider ends."""

_MOST_WAITING = 1000
"""Above this number of unsent URLs, as when the engine is unavailable, start URLs stay in their list."""


Kind = Literal["list", "set", "zset"]

_TAKE = """
-- Take entries from a list, set or sorted set, and claim them.
-- KEYS[1] the list   KEYS[2] the worker's claims   KEYS[3] the workers that have claims
-- ARGV    "list" | "set" | "zset", how many at most, the worker
-- reply   the claimed entries: new entries, or the entries of the last call if they were not settled since
local kind, n, taken = ARGV[1], tonumber(ARGV[2]), redis.call('LRANGE', KEYS[2], 0, -1)
if #taken > 0 then return taken end
if kind == 'set' then
  taken = redis.call('SPOP', KEYS[1], n)
elseif kind == 'list' then
  taken = redis.call('LRANGE', KEYS[1], 0, n - 1)
  redis.call('LTRIM', KEYS[1], n, -1)
else
  local flat = redis.call('ZREVRANGE', KEYS[1], 0, n - 1, 'WITHSCORES')
  for i = 1, #flat, 2 do taken[#taken + 1] = flat[i + 1] .. ' ' .. flat[i] end
  redis.call('ZREMRANGEBYRANK', KEYS[1], -n, -1)
end
for _, entry in ipairs(taken) do redis.call('RPUSH', KEYS[2], entry) end
if #taken > 0 then redis.call('SADD', KEYS[3], ARGV[3]) end
return taken
"""

_GIVE_BACK = """
-- Put a dead worker's claims back, at the head of a list.
-- KEYS[1] the list   KEYS[2] the worker's claims   KEYS[3] the workers that have claims
-- ARGV    "list" | "set" | "zset", the worker
-- reply   number of claims
local claims = redis.call('LRANGE', KEYS[2], 0, -1)
for i = #claims, 1, -1 do
  local score, entry = string.match(claims[i], '^(%S+) (.*)$')
  if ARGV[1] == 'zset' then redis.call('ZADD', KEYS[1], score, entry)
  elseif ARGV[1] == 'set' then redis.call('SADD', KEYS[1], claims[i])
  else redis.call('LPUSH', KEYS[1], claims[i]) end
end
redis.call('DEL', KEYS[2])
redis.call('SREM', KEYS[3], ARGV[2])
return #claims
"""


def is_fed(spider: Any) -> bool:
    """Whether a spider reads its start URLs from a list, like scrapy-redis's RedisSpider."""
    return hasattr(spider, "redis_key") and hasattr(spider, "next_requests")


class StartURLClaims:
    """The claims of one worker on one list. `server` is a blocking client: call all methods in a thread."""

    def __init__(self, server: Any, key: str, kind: Kind, crawl: str, worker: str) -> None:
        self._server = server
        self._key = key
        self._kind = kind
        self._worker = worker
        self._workers = f"{key if _is_tagged(key) else f'{{{key}}}'}:claimed:{crawl}"
        self.outstanding = False
        """Whether some claims are not settled."""

    @classmethod
    def of(cls, spider: Any, crawl: str, worker: str) -> StartURLClaims | None:
        """Returns the claims for a RedisSpider; None if it overrides how its list is read."""
        server, fetch = getattr(spider, "server", None), getattr(spider, "fetch_data", None)
        ways: dict[Kind, Any] = {
            "list": getattr(spider, "pop_list_queue", None),
            "set": getattr(server, "spop", None),
            "zset": getattr(spider, "pop_priority_queue", None),
        }
        if server is None or ("}" in spider.redis_key and not _is_tagged(spider.redis_key)):
            return None  # no other key can be in the slot of a name with an unmatched brace
        for kind, way in ways.items():
            ours = getattr(way, "__module__", "").split(".")[0] in ("scrapy_redis", "redis")
            if fetch is not None and fetch == way and ours:
                return cls(server, spider.redis_key, kind, crawl, worker)
        return None

    def take(self, key: str, count: int) -> list[Any]:
        """Replaces a RedisSpider's `fetch_data`; returns nothing while claims are not settled."""
        if self.outstanding:
            return []
        claimed = self._server.eval(_TAKE, *self._keys(self._worker), self._kind, count, self._worker)
        self.outstanding = bool(claimed)
        return [self._entry(claim) for claim in claimed]

    def settle(self) -> None:
        """Drops the claims, because the frontier has the URLs."""
        with self._server.pipeline() as pipe:
            pipe.delete(self._of(self._worker))
            pipe.srem(self._workers, self._worker)
            pipe.execute()
        self.outstanding = False

    def owners(self) -> list[str]:
        """Returns the workers that have claims."""
        return [_text(name) for name in self._server.smembers(self._workers)]

    def give_back(self, dead: Iterable[str]) -> int:
        """Puts the claims of these workers back; returns the number of entries."""
        return sum(self._server.eval(_GIVE_BACK, *self._keys(name), self._kind, name) for name in dead)

    def _keys(self, worker: str) -> tuple[int, str, str, str]:
        return 3, self._key, self._of(worker), self._workers

    def _of(self, worker: str) -> str:
        return f"{self._workers}:{worker}"

    def _entry(self, claim: Any) -> Any:
        if self._kind != "zset":
            return claim
        return claim.partition(b" " if isinstance(claim, bytes) else " ")[2]


class StartURLFeeding:
    """Crawls the URLs that are pushed to the spider's list, which it reads twice a second until `end`.

    An entry is removed from the server when the frontier has it. Entries that a dead worker read are put back.
    """

    def __init__(self, crawler: Crawler, session: Session, worker: Worker) -> None:
        self._crawler = crawler
        self._session = session
        self._worker = worker
        self._spider = cast(Any, crawler.spider)
        self._ending = asyncio.Event()
        self._discovered: int | None = None
        """The worker's number of discovered URLs after the last batch was added."""
        self._claims = StartURLClaims.of(
            self._spider, session.connection.keys.crawl, session.connection.worker
        )
        if self._claims:
            self._spider.fetch_data = self._claims.take
        else:
            logger.warning(
                "Spider %s overrides how its list is read: start URLs may be lost if the worker is killed",
                self._spider.name,
            )
        self._make = self._spider.make_request_from_data
        self._spider.make_request_from_data = self._valid
        # the spider's idle handler reads nothing, because it cannot wait until all workers know the hosts
        self._read = self._spider.next_requests
        self._spider.next_requests = list
        self._is_between = False
        """Whether URLs that the worker has not discovered may have left the list."""
        self._task = asyncio.create_task(self._run())

    async def end(self) -> None:
        """Stops reading. Waits for a pending read, because its URLs have left the list."""
        self._ending.set()
        await asyncio.wait([self._task], timeout=_ENDS_SECONDS)

    async def settle(self) -> None:
        """Drops the claims once the frontier has their URLs."""
        claims = self._claims
        if claims and claims.outstanding and not self._is_between:
            self._discovered = self._worker.intake.total if self._discovered is None else self._discovered
            if self._worker.intake.sent >= self._discovered:
                await asyncio.to_thread(claims.settle)
                self._discovered = None

    async def conclude(self) -> None:
        """Drops the last claims, once the worker has closed.

        If the engine is unavailable, the start URLs go back to their list, like those of a dead worker.
        """
        with suppress(*UNAVAILABLE):
            await self.settle()

    async def _run(self) -> None:
        turn = 0
        while not self._ending.is_set():
            try:
                await self.settle()
                if turn % _LOOK_FOR_DEAD_EVERY == 0:
                    await self._take_over()
                if self._worker.heartbeat.is_registered and len(self._worker.intake) <= _MOST_WAITING:
                    turn += 1
                    await self._feed()
            except UNAVAILABLE as error:
                logger.info("Cannot read start URLs at the moment: %s", error)
            except Exception:
                logger.exception("Cannot read start URLs from %s", self._spider.redis_key)
            with suppress(TimeoutError):
                async with asyncio.timeout(_FEED_SECONDS):
                    await self._ending.wait()

    async def _feed(self) -> None:
        """Reads a batch, tells all workers that the operator named its hosts, and crawls it."""
        self._is_between = True
        try:
            requests = await asyncio.to_thread(lambda: list(self._read()))
            try:
                # before the frontier has the URLs, because any worker may lease them then
                await self._session.scope.admit_seeds(
                    filter(_is_valid, (request.url for request in requests))
                )
            finally:
                for request in requests:
                    self._crawler.engine.crawl(request)
        finally:
            self._is_between = False

    async def _take_over(self) -> None:
        """Puts the claims of dead workers back."""
        if self._claims is None:
            return
        # before the workers: a living owner of claims was registered before it claimed
        owners = await asyncio.to_thread(self._claims.owners)
        dead = {*owners} - {
            *await self._session.connection.crawl.workers.names(),
            self._session.connection.worker,
        }
        if dead and (number := await asyncio.to_thread(self._claims.give_back, dead)):
            logger.warning("Put %d start URLs of dead workers back into %s", number, self._spider.redis_key)

    def _valid(self, data: Any) -> Any:
        """Returns the requests of one entry; an invalid entry must not affect the others."""
        try:
            made = self._make(data)
            requests = [made] if isinstance(made, Request) else list(made or ())
            for request in requests:
                normalize(request.url)
        except Exception as error:
            logger.error("Skipping the start URL %r: %s", data, error)
            self._crawler.stats.inc_value("frontier/bad_start_urls")
            return []
        return requests


def _is_valid(url: str) -> bool:
    try:
        normalize(url)
    except InvalidURL:
        return False
    return True


def _is_tagged(key: str) -> bool:
    """Whether a key has a hash tag, which determines its slot in a cluster."""
    start = key.find("{")
    return start >= 0 and key.find("}", start) > start + 1


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
