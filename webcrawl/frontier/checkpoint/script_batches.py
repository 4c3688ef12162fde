"""Batches of records for the script `restore`, which puts them into a crawl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call
from webcrawl.frontier.operations import BATCH

_MAX_ARGUMENTS = 20 * BATCH
"""Arguments of the calls that are sent together."""


class ScriptBatches:
    """Sends records of one kind at a time, in batches for each shard."""

    def __init__(self, engine: Engine, keys: Keys) -> None:
        self._engine = engine
        self._keys = keys
        self._kind = ""
        self._batches: dict[int, list[Any]] = {}
        self._left = _MAX_ARGUMENTS

    async def add(self, shard: int, kind: str, arguments: Sequence[Any]) -> None:
        """Add the arguments of a record; may send what has been added so far."""
        if kind != self._kind:
            await self.send()
            self._kind = kind
        batch = self._batches.setdefault(shard, [])
        batch += arguments
        self._left -= len(arguments)
        if len(batch) >= 2 * BATCH or self._left <= 0:
            await self.send()

    async def send(self) -> None:
        """Send everything that has been added."""
        calls = [
            Call("restore", self._keys.queue(shard), (self._kind, *arguments))
            for shard, arguments in self._batches.items()
        ]
        self._batches.clear()
        self._left = _MAX_ARGUMENTS
        await self._engine.run_all(calls)
