"""Batches of records for the script `restore`, which puts them into a crawl."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Argument, script_call
from webcrawl.frontier.operations import BATCH

_MAX_ARGUMENTS = 20 * BATCH
"""Arguments of the calls that are sent together."""


@dataclass(slots=True)
class _Batch:
    """Records for one call of restore.lua."""

    names: list[Argument] = field(default_factory=list)
    values: list[Argument] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    parts: list[Argument] = field(default_factory=list)


class ScriptBatches:
    """Sends records of one kind at a time, in batches for each shard."""

    def __init__(self, engine: Engine, keys: Keys) -> None:
        self._engine = engine
        self._keys = keys
        self._kind = ""
        self._batches: dict[int, _Batch] = {}
        self._left = _MAX_ARGUMENTS

    async def add(
        self, shard: int, kind: str, name: Argument, value: Argument = "", parts: Sequence[Argument] = ()
    ) -> None:
        """Adds a record; may send what has been added so far."""
        if kind != self._kind:
            await self.send()
            self._kind = kind
        batch = self._batches.setdefault(shard, _Batch())
        batch.names.append(name)
        batch.values.append(value)
        batch.counts.append(len(parts))
        batch.parts += parts
        self._left -= 2 + len(parts)
        if 2 * len(batch.names) + len(batch.parts) >= 2 * BATCH or self._left <= 0:
            await self.send()

    async def send(self) -> None:
        """Sends everything that has been added."""
        calls = [
            script_call(
                "restore",
                self._keys.queue(shard),
                kind=self._kind,
                record={"name": batch.names, "value": batch.values, "n": batch.counts},
                parts=batch.parts,
            )
            for shard, batch in self._batches.items()
        ]
        self._batches.clear()
        self._left = _MAX_ARGUMENTS
        await self._engine.run_all(calls)
