"""Claims on start URLs that a worker took from a scrapy-redis spider's list, kept until the frontier has them.

Two keys in the slot of the list hold them:

    {LIST}:claimed:CRAWL          SET   workers that have claims
    {LIST}:claimed:CRAWL:WORKER   LIST  what the worker took last: an entry of the list or set, or "SCORE entry"

The braces are LIST's own if it has a hash tag. The claims of a dead worker are put back into the list.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

Kind = Literal["list", "set", "zset"]

_TAKE = """
-- Take entries from a list, set or sorted set, and claim them.
-- KEYS[1] the list   KEYS[2] the worker's claims   KEYS[3] the workers that have claims
-- ARGV    "list" | "set" | "zset", how many at most, the worker
-- reply   what is claimed: new entries, or those of the last call if they were not settled since
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
-- reply   how many
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


class StartURLClaims:
    """The claims of one worker on one list. `server` is a blocking client: call all methods in a thread."""

    def __init__(self, server: Any, key: str, kind: Kind, crawl: str, worker: str) -> None:
        self._server = server
        self._key = key
        self._kind = kind
        self._worker = worker
        self._workers = f"{key if _is_tagged(key) else f'{{{key}}}'}:claimed:{crawl}"
        self.outstanding = False
        """Whether there are claims that are not settled."""

    @classmethod
    def of(cls, spider: Any, crawl: str, worker: str) -> StartURLClaims | None:
        """The claims for a RedisSpider; None if it overrides how its list is read."""
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
        """Drop the claims, because the frontier has the URLs."""
        with self._server.pipeline() as pipe:
            pipe.delete(self._of(self._worker))
            pipe.srem(self._workers, self._worker)
            pipe.execute()
        self.outstanding = False

    def owners(self) -> list[str]:
        """The workers that have claims."""
        return [_text(name) for name in self._server.smembers(self._workers)]

    def give_back(self, dead: Iterable[str]) -> int:
        """Put the claims of these workers back; returns the number of entries."""
        return sum(self._server.eval(_GIVE_BACK, *self._keys(name), self._kind, name) for name in dead)

    def _keys(self, worker: str) -> tuple[int, str, str, str]:
        return 3, self._key, self._of(worker), self._workers

    def _of(self, worker: str) -> str:
        return f"{self._workers}:{worker}"

    def _entry(self, claim: Any) -> Any:
        if self._kind != "zset":
            return claim
        return claim.partition(b" " if isinstance(claim, bytes) else " ")[2]


def _is_tagged(key: str) -> bool:
    """Whether a key has a hash tag, which determines its slot in a cluster."""
    start = key.find("{")
    return start >= 0 and key.find("}", start) > start + 1


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
