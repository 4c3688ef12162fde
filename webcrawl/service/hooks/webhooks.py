"""Runs the webhooks of an engine: what they want is copied for them, and delivered to each on its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from webcrawl.config import read
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.service.hooks.delivery import ReceiverState, WebhookDelivery
from webcrawl.service.hooks.registry import WebhookRegistry
from webcrawl.service.hooks.routing import EventRouting
from webcrawl.service.hooks.sending import WebhookSender
from webcrawl.service.hooks.webhook import Webhook, named_webhooks
from webcrawl.service.service import Service

_LOOK_SECONDS = 5.0
_PAUSE = 1.0
logger = logging.getLogger(__name__)


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
