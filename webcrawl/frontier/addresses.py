"""The engine's side of the turns of IP addresses: one script call for each question, many in one round trip."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from webcrawl.config import AddressConfig
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call, script_call
from webcrawl.frontier.operations import milliseconds
from webcrawl.hosts.address_turn import Ask, Grant

_MOST_AT_ONCE = 500


@dataclass(slots=True)
class EngineAddressTurns:
    """Asks the engine for turns of addresses.

    Questions during a round trip go into the next round trip. `held_seconds`: after this time, the connections of a
    dead worker are free.
    """

    engine: Engine
    keys: Keys
    worker: str
    config: AddressConfig
    held_seconds: float
    ending: asyncio.Event
    """Set when the crawl ends; soon after that, calls no longer wait for an unavailable engine."""
    _asks: list[tuple[Ask, asyncio.Future[tuple[Grant, float]]]] = field(default_factory=list, init=False)
    _sending: asyncio.Task[None] | None = field(default=None, init=False)

    async def ask(self, ask: Ask) -> tuple[Grant, float]:
        """Returns the grant of the engine, and the monotonic time before the engine was asked.

        Waits while the engine is unavailable; raises EngineUnavailable if the crawl ends meanwhile.
        """
        answer: asyncio.Future[tuple[Grant, float]] = asyncio.get_running_loop().create_future()
        self._asks.append((ask, answer))
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._send_all())
        return await answer

    async def _send_all(self) -> None:
        try:
            while self._asks:
                batch, self._asks = self._asks[:_MOST_AT_ONCE], self._asks[_MOST_AT_ONCE:]
                await self._send(batch)
        finally:
            self._sending = None

    async def _send(self, batch: list[tuple[Ask, asyncio.Future[tuple[Grant, float]]]]) -> None:
        calls = [self._call(ask) for ask, _ in batch]
        asked = 0.0

        async def run() -> list[Any]:
            nonlocal asked
            asked = time.monotonic()
            return await self.engine.run_all(calls)

        try:
            replies = await self.engine.retry_until_available(run, self.ending)
        except Exception as error:
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, answer), reply in zip(batch, replies, strict=True):
            if not answer.done():
                grant = Grant(reply.wait_ms / 1000, reply.length_ms / 1000, reply.ends.decode(), reply.held)
                answer.set_result((grant, asked))

    def _call(self, ask: Ask) -> Call:
        return script_call(
            "address",
            [self.keys.address(ask.address)],
            worker=self.worker,
            delay_ms=milliseconds(self.config.delay),
            length_ms=-1 if ask.length is None else milliseconds(ask.length),
            at_once_ms=milliseconds(ask.at_once),
            last=ask.last,
            idle_ms=int(ask.idle * 1000),  # rounded down: the last request was no later
            limit=self.config.connections,
            connections=ask.connections,
            in_use=ask.in_use,
            held_ms=milliseconds(self.held_seconds),
        )
