"""The turns of hosts for single requests of workers that have not leased them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_call
from webcrawl.frontier.operations import milliseconds

_KEPT_SECONDS = 3600.0
"""Seconds for which the record of a host is kept after a request."""


@dataclass(frozen=True, slots=True)
class Borrowed:
    """The reply to a request for a turn; durations in seconds.

    state  "taken"; "held": another worker has the turn; "early": the host may be asked in `wait`
    gap    the pause that the host usually gets after a request
    """

    state: Literal["taken", "held", "early"]
    wait: float
    gap: float


@dataclass(frozen=True, slots=True)
class BorrowedTurns:
    """Methods may raise a connection error of the engine, and may be repeated. `name` identifies a request."""

    engine: Engine
    keys: Keys

    async def borrow(self, host: str, name: str, seconds: float) -> Borrowed:
        """Takes the turn of a host for at most `seconds`, if the turn is free."""
        call = script_call("borrow", self._keys(host), host=host, request=name, hold_ms=milliseconds(seconds))
        reply = await self.engine.run(call)
        return Borrowed(reply.state.decode(), reply.wait_ms / 1000, reply.gap / 1000)

    async def repay(self, host: str, name: str, pause: float) -> None:
        """Returns the turn, after which no one may ask the host for `pause` seconds."""
        call = script_call(
            "repay",
            self._keys(host),
            host=host,
            request=name,
            pause_ms=milliseconds(pause),
            quiet_ms=milliseconds(_KEPT_SECONDS),
        )
        await self.engine.run(call)

    def _keys(self, host: str) -> tuple[str, str]:
        return self.keys.queue(self.keys.shard(host))
