"""What a worker believes the engine to know, and what that may have forgotten in a restart."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from webcrawl.engine.client import Engine
from webcrawl.frontier import Candidate

_FORGOTTEN_SECONDS = 3.0
"""A server that syncs once a second may lose two in a power failure."""


class EngineRestarts:
    """Keeps the URLs that the engine took lately, to be said again should another server answer than before."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._servers: list[str] = []
        self._found: list[str] = []
        self._connections = 0
        self._doubted = True
        self._taken: deque[tuple[float, Sequence[Candidate]]] = deque()

    def taken(self, batch: Sequence[Candidate]) -> None:
        """The engine took these just now."""
        now = time.monotonic()
        self._taken.append((now, batch))
        while self._taken[0][0] < now - _FORGOTTEN_SECONDS:
            self._taken.popleft()

    def doubt(self) -> None:
        """The engine was away."""
        self._doubted = True

    async def detected(self) -> bool:
        """Whether the engine was started again, or has failed over, since the last time that was `handled`."""
        if self._doubted or self._engine.connections != self._connections:
            self._doubted, self._connections = True, self._engine.connections
            self._found = await self._engine.servers()
            self._servers = self._servers or self._found
            self._doubted = self._found != self._servers
        return self._doubted

    def handled(self) -> None:
        """All that has to be done has been done."""
        self._servers, self._doubted = self._found, False

    def forgotten(self) -> list[Candidate]:
        """What the engine took in its last moments, and may not know any more: it does not count as taken."""
        batches = [batch for _, batch in self._taken]
        self._taken.clear()
        return [candidate for batch in batches for candidate in batch]
