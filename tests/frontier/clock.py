"""A test-controlled clock in place of the servers' clocks, and an engine that loses replies on demand."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from webcrawl.engine.client import Engine
from webcrawl.engine.scripts import Call
from webcrawl.errors import EngineUnavailable

# prepended to every script: TIME and key expiry follow the clock of the test
_CLOCK = """
local server, tag = redis, string.match(KEYS[1], '{.-}')
local redis = {sha1hex = server.sha1hex}
function redis.call(command, key, ...)
  if command == 'TIME' then
    local ms = server.call('GET', 'clock:' .. tag)
    return {string.format('%.0f', math.floor(ms / 1000)), string.format('%.0f', ms % 1000 * 1000)}
  elseif command == 'PEXPIRE' then
    if tonumber((...)) <= 0 then return server.call('DEL', key) end
    return server.call('ZADD', 'expiries:' .. tag, server.call('GET', 'clock:' .. tag) + (...), key)
  elseif command == 'PERSIST' then
    return server.call('ZREM', 'expiries:' .. tag, key)
  elseif key == nil then
    return server.call(command)
  end
  return server.call(command, key, ...)
end
"""


class Clock:
    """The servers' time, in ms, for the keys with these hash tags. It moves only when `move` is called."""

    def __init__(self, valkey: Any, tags: Iterable[str]) -> None:
        self._valkey = valkey
        self._tags = list(tags)
        self.now = 1_700_000_000_000
        self.move(0)

    def move(self, ms: int) -> None:
        """Let time pass in which scripts run, or set the clock back, and delete keys that have expired."""
        self.jump(ms)
        for tag in self._tags if ms > 0 else ():
            last, ahead = map(int, (self._valkey.get(f"wc:{tag}:clock") or b"0 0").split())
            if last:
                self._valkey.set(f"wc:{tag}:clock", f"{max(last, self.now + ahead)} {ahead}")

    def jump(self, ms: int) -> None:
        """Set the clock forward or back at once, and delete keys that have expired."""
        self.now += ms
        pipe = self._valkey.pipeline(transaction=False)
        for tag in self._tags:
            pipe.set(f"clock:{tag}", self.now)
            pipe.zrangebyscore(f"expiries:{tag}", "-inf", self.now)
        for tag, keys in zip(self._tags, pipe.execute()[1::2], strict=True):
            for key in keys:
                self._valkey.delete(key)
                self._valkey.zrem(f"expiries:{tag}", key)


class Killed(Exception):
    """The process was killed."""


class ClockedEngine(Engine):
    """Its scripts read a Clock. `losing` drops all replies: "reply" after running the calls, "late" without running."""

    losing = ""
    lost: list[tuple[Call, Any]]
    """The calls whose replies were lost, with the replies. The test that sets `losing` empties it."""
    steps: int | None = None
    """After so many round trips, the process dies: in the next one, the server gets only the first call."""

    def script(self, name: str) -> tuple[str, str]:
        first, end, rest = super().script(name)[1].partition("\n")
        text = f"{first}{end}{_CLOCK}{rest}" if first.startswith("#!") else f"{_CLOCK}{first}{end}{rest}"
        return hashlib.sha1(text.encode()).hexdigest(), text

    async def run_all(self, calls: Sequence[Call], *, some: bool = False) -> list[Any]:
        if self.steps is not None:
            if self.steps <= 0:
                if self.steps == 0:
                    await super().run_all(calls[:1])
                self.steps = -1
                raise Killed
            self.steps -= 1
        if not self.losing:
            return await super().run_all(calls, some=some)
        replies = [None] * len(calls) if self.losing == "late" else await super().run_all(calls)
        self.lost += zip(calls, replies, strict=True)
        return [EngineUnavailable("the connection was lost")] * len(calls)
