"""A lock and notes in the engine: of the process that watches a crawl, and of that which writes its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_call

WATCHER_SECONDS = 15.0
"""Seconds without a sign of the watcher after which another process may watch."""


@dataclass(frozen=True, slots=True)
class Watch:
    """At most one process at a time watches a crawl, by the engine's clock; it gets the notes of its predecessor.

    `role` and `notes` are the names of the keys. The lock expires after `seconds`.
    """

    engine: Engine
    keys: Keys
    process: str
    role: str = "watcher"
    notes: str = "watched"
    seconds: float = WATCHER_SECONDS

    async def claim(self, notes: str = "") -> str | None:
        """Watches for `seconds` more; returns the latest notes, or None while another process watches.

        `notes` replace the stored notes, unless they are empty or another process watches.
        """
        return await self._run(int(self.seconds * 1000), notes)

    async def leave(self, notes: str = "") -> None:
        """Lets another process watch, and leaves it notes."""
        await self._run(0, notes)

    async def _run(self, milliseconds: int, notes: str) -> str | None:
        call = script_call(
            "watch",
            [self.keys.own(self.role), self.keys.own(self.notes)],
            process=self.process,
            ms=milliseconds,
            notes=notes,
        )
        reply = await self.engine.run(call)
        return str(reply.stored.decode()) if reply.watches else None
