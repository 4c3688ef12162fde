"""Runs the webhooks of an engine: events of the live lane that they want are copied for them, and delivered to each.

All services of an engine share the copying as a consumer group, whose position outlasts them. An event is acknowledged
when its copies are in the engine, so each is copied at least once; its ID tells a second copy.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from redis.exceptions import ResponseError

from webcrawl.config import read
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.engine.keys import LIVE_CRAWL, webhook_events
from webcrawl.engine.replication import Command
from webcrawl.errors import EngineError
from webcrawl.opened import Connection
from webcrawl.service.events import EventFilter
from webcrawl.service.hooks.delivery import ReceiverState, WebhookDelivery
from webcrawl.service.hooks.sending import WebhookSender
from webcrawl.service.hooks.webhook import Webhook, WebhookRegistry, named_webhooks
from webcrawl.service.service import Service
from webcrawl.stores.listeners import stream_entries

_LOOK_SECONDS = 5.0
_PAUSE = 1.0
logger = logging.getLogger(__name__)
GROUP, READER = "webhooks", "service"
MOST_WAITING = 10_000
"""The events that wait for a webhook, about: the oldest are dropped."""
KEPT_SECONDS = 7 * 86_400
"""How long events wait for a receiver that accepts none."""
_BATCH = 200
_BLOCK_MS = 1_000
_IDLE_SECONDS = 30.0


class Webhooks:
    """The webhooks of a service; raises ConfigurationError for a wrong setting."""

    def __init__(self, service: Service) -> None:
        connection = service.opened.connection
        self.registry = WebhookRegistry(
            connection.engine, list(named_webhooks(read(service.settings, "WEBHOOKS")))
        )
        self.sender = WebhookSender(service.settings)
        self._service = service
        self._engine = connection.engine
        self._routing = EventRouting(connection, self.registry)
        self._deliveries: dict[str, tuple[WebhookDelivery, asyncio.Task[None]]] = {}
        self._changed = asyncio.Event()
        service.on_close(self.sender.close)

    async def add(self, hook: Webhook) -> None:
        """Adds a webhook, for the events from now on. Raises the errors of UNAVAILABLE."""
        await self._routing.begin()
        await self.registry.add(hook)
        self._changed.set()

    async def remove(self, hook: Webhook) -> None:
        """Removes a webhook. Raises the errors of UNAVAILABLE."""
        await self.registry.remove(hook)
        if not await self.registry.all():
            await self._routing.end()
        self._changed.set()

    def state(self, hook: Webhook) -> ReceiverState:
        """Returns what this service knows of a receiver."""
        delivery = self._deliveries.get(hook.id)
        return ReceiverState() if delivery is None else delivery[0].state

    async def run(self) -> None:
        """Runs until it is cancelled. Other services of the engine add and remove webhooks too."""
        while True:
            self._changed.clear()
            try:
                hooks = await self.registry.all()
                self._follow(hooks)
                if hooks:
                    for hook_id in await self._routing.route():
                        if hook_id in self._deliveries:
                            self._deliveries[hook_id][0].wake()
                else:
                    await self._wait()
            except UNAVAILABLE as error:
                logger.warning("The events for webhooks cannot be read now: %s", error)
                await asyncio.sleep(_PAUSE)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._changed.wait()
        except TimeoutError:
            return

    def _follow(self, hooks: Mapping[str, Webhook]) -> None:
        """Begins and ends deliveries, so that there is one for each webhook."""
        for hook_id in self._deliveries.keys() - hooks.keys():
            self._deliveries.pop(hook_id)[1].cancel()
        for hook_id in hooks.keys() - self._deliveries.keys():
            delivery = WebhookDelivery(
                self._engine, hooks[hook_id], self.sender, self._service.tally.deliveries
            )
            self._deliveries[hook_id] = delivery, self._service.run(delivery.run())


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
