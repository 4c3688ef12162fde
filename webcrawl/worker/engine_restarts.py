"""Detects restarts of the engine, and keeps the URLs that one may have lost."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from webcrawl.engine.client import Engine
from webcrawl.frontier import Candidate

_LOSABLE_SECONDS = 3.0
"""A server that syncs its file once a second may lose two seconds in a power failure."""


class EngineRestarts:
    """Compares the engine's servers with those seen before, and remembers recently added URLs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._servers: list[str] = []
        self._found: list[str] = []
        self._connections = 0
        self._doubted = True
        self._recent: deque[tuple[float, Sequence[Candidate]]] = deque()

    def record(self, batch: Sequence[Candidate]) -> None:
        """Remembers a batch that the engine has just accepted."""
        now = time.monotonic()
        self._recent.append((now, batch))
        while self._recent[0][0] < now - _LOSABLE_SECONDS:
            self._recent.popleft()

    def doubt(self) -> None:
        """Makes `detected` ask the engine: it was unavailable."""
        self._doubted = True

    async def detected(self) -> bool:
        """Whether the engine was restarted or failed over since the last call of `handled`."""
        if self._doubted or self._engine.connections != self._connections:
            self._doubted, self._connections = True, self._engine.connections
            self._found = await self._engine.servers()
            self._servers = self._servers or self._found
            self._doubted = self._found != self._servers
        return self._doubted

    def handled(self) -> None:
        """Marks the detected restart as handled."""
        self._servers, self._doubted = self._found, False

    def take_recent(self) -> list[Candidate]:
        """Returns the recently accepted URLs, which the engine may have lost, and forgets them."""
        batches = [batch for _, batch in self._recent]
        self._recent.clear()
        return [candidate for batch in batches for candidate in batch]
