"""The webhooks of an engine: those of the settings, and those that were added over HTTP, which the engine keeps."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import WEBHOOKS, webhook_events
from webcrawl.engine.replication import Command
from webcrawl.service.hooks.webhook import Webhook

MOST = 100
"""The most webhooks of an engine."""
_decode = msgspec.json.Decoder(Webhook).decode


class WebhookRegistry:
    """`named`: those of the settings. Methods raise the errors of UNAVAILABLE."""

    def __init__(self, engine: Engine, named: Sequence[Webhook]) -> None:
        self._engine = engine
        self._named = {hook.id: hook for hook in named}

    async def all(self) -> dict[str, Webhook]:
        """Returns the webhooks by ID."""
        stored = await self._engine.client.hgetall(WEBHOOKS)
        hooks = {}
        for record in stored.values():
            with suppress(msgspec.MsgspecError):  # of another version
                hook = _decode(record)
                hooks[hook.id] = hook
        return hooks | self._named

    async def add(self, hook: Webhook) -> None:
        await self._change(("HSET", WEBHOOKS, hook.id, msgspec.json.encode(hook)))

    async def remove(self, hook: Webhook) -> None:
        """Removes a webhook that was added over HTTP, and the events that wait for it."""
        await self._change(("HDEL", WEBHOOKS, hook.id))
        key = webhook_events(hook.id)
        await self._engine.change_all([Command(key, ("DEL", key))])

    async def _change(self, words: Sequence[str | bytes]) -> None:
        await self._engine.change_all([Command(WEBHOOKS, words)])
