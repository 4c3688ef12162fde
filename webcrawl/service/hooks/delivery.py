"""Posts the events that wait for a webhook, and again with growing pauses until the receiver accepts them.

The engine counts the attempts, as deliveries of the entries of the webhook's stream: they outlast the service, and
services share them. An attempt takes less than the first pause, so only one service makes it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ResponseError

from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.keys import webhook_events
from webcrawl.engine.replication import Command
from webcrawl.errors import EngineError
from webcrawl.service.hooks.sending import SECONDS, WebhookSender
from webcrawl.service.hooks.webhook import Webhook
from webcrawl.stores.listeners import stream_entries

PAUSES = (15.0, 60.0, 300.0, 1_800.0, 7_200.0, 21_600.0, 43_200.0)
"""The seconds after each failed attempt of an event until the next; after the last attempt it is given up."""
assert PAUSES[0] > SECONDS
AT_ONCE = 16
"""The events that are posted to a receiver at once."""
_GROUP, _READER = "receiver", "service"
_MOST_PENDING = 1_000
_LOOK_SECONDS = 1.0
_LONGEST_WAIT = 5.0
_LONGEST_REST = 300.0
logger = logging.getLogger(__name__)


@dataclass
class ReceiverState:
    """What a service knows of a receiver. `failures`: batches in a row of which it has accepted nothing."""

    failures: int = 0
    error: str = ""
    delivered: int = 0
    given_up: int = 0


class WebhookDelivery:
    """Delivers to one receiver. `outcomes` counts attempts: `delivered`, `failed`, and events `given-up`."""

    def __init__(
        self,
        engine: Engine,
        hook: Webhook,
        sender: WebhookSender,
        outcomes: Counter[str],
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self.hook = hook
        self.state = ReceiverState()
        self._engine = engine
        self._key = webhook_events(hook.id)
        self._sender = sender
        self._outcomes = outcomes
        self._pauses = pauses
        self._news = asyncio.Event()
        self._looked = 0.0

    def wake(self) -> None:
        """Says that events have come."""
        self._news.set()

    async def run(self) -> None:
        """Delivers until it is cancelled. A receiver that accepts nothing is asked ever more seldom."""
        while True:
            self._news.clear()
            try:
                entries = await self._next()
                if entries:
                    await self._deliver(entries)
            except UNAVAILABLE as error:
                logger.warning("The events of webhook %s cannot be read now: %s", self.hook.id, error)
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            if self.state.failures:
                await asyncio.sleep(min(2.0 ** (self.state.failures - 1), _LONGEST_REST))
            elif not entries:
                await self._wait()

    async def _wait(self) -> None:
        """Waits for events: a few seconds for those of other services, no longer than the first pause."""
        try:
            async with asyncio.timeout(min(_LONGEST_WAIT, self._pauses[0])):
                await self._news.wait()
        except TimeoutError:
            return

    async def _next(self) -> list[Any]:
        """Returns the events that are due: those that failed before, and new ones."""
        try:
            due = await self._due()
            if len(due) >= AT_ONCE:
                return due[:AT_ONCE]
            reply = await self._engine.client.xreadgroup(
                _GROUP, _READER, {self._key: ">"}, count=AT_ONCE - len(due)
            )
            return [*due, *stream_entries(reply)]
        except ResponseError as error:
            if "NOGROUP" in str(error):
                await self._create_group()
                return []
            raise

    async def _create_group(self) -> None:
        if not await self._engine.client.exists(self._key):
            return  # nothing waits
        words = ("XGROUP", "CREATE", self._key, _GROUP, "0")
        try:
            await self._engine.change_all([Command(self._key, words)])
        except EngineError as error:
            if "BUSYGROUP" not in str(error):
                raise
        self._news.set()

    async def _due(self) -> list[Any]:
        """Claims events whose pause is over, and gives up those without a further attempt."""
        if time.monotonic() - self._looked < min(_LOOK_SECONDS, self._pauses[0]):
            return []
        client = self._engine.client
        self._looked = time.monotonic()
        pending = await client.xpending_range(
            self._key, _GROUP, "-", "+", _MOST_PENDING, idle=int(1_000 * self._pauses[0])
        )
        over = [each["message_id"] for each in pending if each["times_delivered"] > len(self._pauses)]
        if over:
            logger.error("Webhook %s has accepted %d events in no attempt", self.hook.id, len(over))
            self.state.given_up += len(over)
            self._outcomes["given-up"] += len(over)
            await self._forget(over)
        due = [
            each["message_id"]
            for each in pending
            if each["times_delivered"] <= len(self._pauses)
            and each["time_since_delivered"] >= 1_000 * self._pauses[each["times_delivered"] - 1]
        ][:AT_ONCE]
        if not due:
            return []
        least = int(1_000 * self._pauses[0])
        entries = await client.xclaim(self._key, _GROUP, _READER, least, due)
        return [entry for entry in entries if entry[1]]

    async def _deliver(self, entries: Sequence[Any]) -> None:
        reasons = await asyncio.gather(*(self._post(fields) for _, fields in entries))
        accepted = [number for (number, _), reason in zip(entries, reasons, strict=True) if not reason]
        if accepted:
            await self._forget(accepted)
        state, failed = self.state, [reason for reason in reasons if reason]
        state.delivered += len(accepted)
        self._outcomes["delivered"] += len(accepted)
        self._outcomes["failed"] += len(failed)
        if failed:
            state.error = failed[-1]
            if not state.failures:
                logger.warning("Webhook %s did not accept an event: %s", self.hook.id, state.error)
        elif not failed:
            state.error = ""
        state.failures = 0 if accepted else state.failures + 1

    async def _post(self, fields: dict[bytes, bytes]) -> str:
        number = fields[b"id"].decode()
        milliseconds = int(number.partition("-")[0])
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1_000))
        body = b'{"type":"page.finished","timestamp":"%s.%03dZ","data":%s}' % (
            at.encode(),
            milliseconds % 1_000,
            fields[b"event"],
        )
        return await self._sender.send(self.hook, number, body)

    async def _forget(self, numbers: Sequence[bytes]) -> None:
        """Removes events that are settled."""
        key = self._key
        commands = [
            Command(key, ("XACK", key, _GROUP, *numbers)),
            Command(key, ("XDEL", key, *numbers)),
        ]
        await self._engine.change_all(commands)
