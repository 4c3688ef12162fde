"""The lock and the notes of the process that watches a crawl."""

from __future__ import annotations

from dataclasses import dataclass

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_call

WATCHER_SECONDS = 15.0
"""Seconds without a sign of the watcher after which another process may watch."""


@dataclass(frozen=True, slots=True)
class Watch:
    """At most one process at a time watches a crawl, by the engine's clock; it gets the notes of its predecessor."""

    engine: Engine
    keys: Keys
    process: str

    async def claim(self, notes: str = "") -> str | None:
        """Watches for WATCHER_SECONDS more; returns the latest notes, or None while another process watches.

        `notes` replace the stored notes, unless they are empty or another process watches.
        """
        return await self._run(int(WATCHER_SECONDS * 1000), notes)

    async def leave(self, notes: str = "") -> None:
        """Lets another process watch, and leaves it notes."""
        await self._run(0, notes)

    async def _run(self, milliseconds: int, notes: str) -> str | None:
        call = script_call("watch", [self.keys.own()], process=self.process, ms=milliseconds, notes=notes)
        reply = await self.engine.run(call)
        return str(reply.stored.decode()) if reply.watches else None
