"""Copies the events of the live lane that webhooks want into a stream of each webhook, where they wait.

All services of an engine share this work as a consumer group, whose position outlasts them. An event is acknowledged
when its copies are in the engine, so each is copied at least once; its ID tells a second copy.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from redis.exceptions import ResponseError

from webcrawl.engine.keys import LIVE_CRAWL, webhook_events
from webcrawl.engine.replication import Command
from webcrawl.errors import EngineError
from webcrawl.opened import Connection
from webcrawl.service.events import EventFilter
from webcrawl.service.hooks.registry import WebhookRegistry
from webcrawl.service.hooks.webhook import Webhook
from webcrawl.stores.listeners import stream_entries

GROUP, READER = "webhooks", "service"
MOST_WAITING = 10_000
"""The events that wait for a webhook, about: the oldest are dropped."""
KEPT_SECONDS = 7 * 86_400
"""How long events wait for a receiver that accepts none."""
_BATCH = 200
_BLOCK_MS = 1_000
_IDLE_SECONDS = 30.0
logger = logging.getLogger(__name__)


class EventRouting:
    """Reads the stream of the live lane. Methods raise the errors of UNAVAILABLE."""

    def __init__(self, connection: Connection, registry: WebhookRegistry) -> None:
        self._engine = connection.engine
        self._key = replace(connection.keys, crawl=LIVE_CRAWL).own("pages")
        self._registry = registry
        self._claimed = -math.inf

    async def begin(self) -> None:
        """Creates the group, which begins with the next event, unless it exists."""
        words = ("XGROUP", "CREATE", self._key, GROUP, "$", "MKSTREAM")
        try:
            await self._engine.change_all([Command(self._key, words)])
        except EngineError as error:
            if "BUSYGROUP" not in str(error):
                raise

    async def end(self) -> None:
        """Removes the group, so that the events until the next webhook are not for it."""
        await self._engine.change_all([Command(self._key, ("XGROUP", "DESTROY", self._key, GROUP))])

    async def route(self) -> set[str]:
        """Copies new events, or waits a second for them; returns the IDs of webhooks that have got some."""
        try:
            entries = await self._abandoned() or await self._new()
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            # the first start, an engine that has lost its latest writes, or the last webhook was removed
            if await self._registry.all():
                await self.begin()
            return set()
        if not entries:
            return set()
        copies = list(_copies(entries, await self._registry.all()))
        await self._engine.change_all([command for _, command in copies])
        numbers = [number for number, _ in entries]
        await self._engine.change_all([Command(self._key, ("XACK", self._key, GROUP, *numbers))])
        return {hook for hook, _ in copies}

    async def _new(self) -> list[Any]:
        reply = await self._engine.client.xreadgroup(
            GROUP, READER, {self._key: ">"}, count=_BATCH, block=_BLOCK_MS
        )
        return stream_entries(reply)

    async def _abandoned(self) -> list[Any]:
        """Returns events that a service has read and not copied, because it ended."""
        if time.monotonic() - self._claimed < _IDLE_SECONDS:
            return []
        _, entries, *_ = await self._engine.client.xautoclaim(
            self._key, GROUP, READER, int(1_000 * _IDLE_SECONDS), "0", count=_BATCH
        )
        if not entries:
            self._claimed = time.monotonic()
        return [entry for entry in entries if entry[1]]


def _copies(entries: Sequence[Any], hooks: Mapping[str, Webhook]) -> Sequence[tuple[str, Command]]:
    """Returns the commands that append events to the streams of webhooks, with the IDs of the webhooks."""
    filters = {hook.id: EventFilter.of(hook.tag, hook.host, hook.pattern) for hook in hooks.values()}
    copies, keys = [], set()
    for number, fields in entries:
        try:
            text = fields[b"page"]
            event = json.loads(text)
        except (KeyError, ValueError):
            continue  # of another version
        for hook_id, wanted in filters.items():
            if event.get("kind") == "page" and wanted.wants(event):
                key = webhook_events(hook_id)
                words = ("XADD", key, "MAXLEN", "~", MOST_WAITING, "*", "id", number, "event", text)
                copies.append((hook_id, Command(key, words)))
                keys.add((hook_id, key))
    return [*copies, *((hook_id, Command(key, ("EXPIRE", key, KEPT_SECONDS))) for hook_id, key in keys)]
