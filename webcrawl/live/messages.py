"""Reads the stream of the live lane in its consumer group. Each message is delivered at least once."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import LIVE_DEAD, LIVE_GROUP
from webcrawl.engine.replication import Command
from webcrawl.engine.scripts import script_call
from webcrawl.errors import EngineError, WrongMessage, brief
from webcrawl.live.request import LiveRequest
from webcrawl.stores.listeners import stream_entries

logger = logging.getLogger(__name__)

_BATCH = 100
_WAIT_MS = 1_000
_MOST_DEAD = 10_000


class Delivered(NamedTuple):
    """A message: its ID in the stream, and when it was put, in Unix time."""

    number: str
    put: float
    request: LiveRequest


class LiveMessages:
    """The stream for one worker, whose name is `consumer`. Methods may raise the errors of UNAVAILABLE.

    `counters`: of the totals of the crawl.
    """

    def __init__(self, engine: Engine, stream: str, consumer: str, counters: Counter[str]) -> None:
        self._engine, self._stream, self._consumer = engine, stream, consumer
        self._counters = counters
        self._last_taken = "0"
        """The ID of the last new message that was asked for."""

    async def begin(self) -> None:
        """Creates the group, which begins with the oldest message in the stream, unless it exists."""
        words = ("XGROUP", "CREATE", self._stream, LIVE_GROUP, "0", "MKSTREAM")
        try:
            await self._engine.change_all([Command(self._stream, words)])
        except EngineError as error:
            if "BUSYGROUP" not in str(error):
                raise

    async def read(self) -> list[Delivered]:
        """Returns new messages; waits up to a second for the first."""
        reply = await self._engine.client.xreadgroup(
            LIVE_GROUP, self._consumer, {self._stream: ">"}, count=_BATCH, block=_WAIT_MS
        )
        return await self._usable(stream_entries(reply))

    async def untaken(self) -> list[Delivered]:
        """Returns some messages that were delivered to this worker after the last one that was `taken`.

        The replies with them were lost, or they could not be asked for.
        """
        # with an ID, the server repeats what this consumer has not acknowledged
        reply = await self._engine.client.xreadgroup(
            LIVE_GROUP, self._consumer, {self._stream: self._last_taken}, count=_BATCH
        )
        return await self._usable(stream_entries(reply))

    def taken(self, messages: Sequence[Delivered]) -> None:
        """Notes that new messages were asked for."""
        self._counters["live_messages"] += len(messages)
        if messages:
            self._last_taken = messages[-1].number

    async def claim(self, living: Collection[str]) -> list[Delivered]:
        """Takes messages that workers which are not `living` have read and not finished; returns some of them."""
        client = self._engine.client
        for consumer in await client.xinfo_consumers(self._stream, LIVE_GROUP):
            name = consumer["name"].decode()
            if name in living or name == self._consumer:
                continue
            call = script_call(
                "take_messages",
                [self._stream],
                group=LIVE_GROUP,
                consumer=self._consumer,
                owner=name,
                most=_BATCH,
            )
            # servers before 7.0 have an empty entry for each message that was deleted
            if entries := list(filter(None, await self._engine.run(call))):
                logger.info("Took %d messages of the dead worker %s", len(entries), name)
                return await self._usable(
                    [(number, dict(zip(words[::2], words[1::2], strict=True))) for number, words in entries]
                )
        return []

    async def long_pending(self, seconds: float) -> list[Delivered]:
        """Returns some messages of this worker that are not finished, and not returned here for `seconds`."""
        client, idle = self._engine.client, int(1000 * seconds)
        pending = await client.xpending_range(
            self._stream, LIVE_GROUP, "-", "+", _BATCH, consumername=self._consumer, idle=idle
        )
        if not pending:
            return []
        numbers = [each["message_id"] for each in pending]
        # begins their time again; those that another worker has taken meanwhile are its own
        return await self._usable(
            await client.xclaim(self._stream, LIVE_GROUP, self._consumer, idle, numbers)
        )

    async def _usable(self, entries: Sequence[Any]) -> list[Delivered]:
        """Returns the messages of entries; moves those that cannot be used to the stream of dead messages."""
        delivered = []
        for number, fields in entries:
            if not fields:  # deleted by an operator
                continue
            name = number.decode()
            try:
                delivered.append(
                    Delivered(name, int(name.partition("-")[0]) / 1000, LiveRequest.from_message(fields))
                )
            except WrongMessage as error:
                await self._bury(name, fields, str(error))
        return delivered

    async def _bury(self, number: str, fields: dict[bytes, bytes], error: str) -> None:
        logger.warning("Message %s of %s cannot be used: %s", number, self._stream, brief(error))
        self._counters["live_messages"] += 1
        self._counters["live_dead_messages"] += 1
        message = {
            name.decode(errors="replace"): value.decode(errors="replace") for name, value in fields.items()
        }
        values = {"stream": self._stream, "id": number, "error": error, "message": json.dumps(message)}
        words = ("XADD", LIVE_DEAD, "MAXLEN", "~", _MOST_DEAD, "*", *sum(values.items(), ()))
        await self._engine.change_all([Command(LIVE_DEAD, words)])
        for command in (("XACK", self._stream, LIVE_GROUP, number), ("XDEL", self._stream, number)):
            with suppress(EngineError):
                await self._engine.change_all([Command(self._stream, command)])
