"""What the parts of a frontier have in common that move from a full engine to the store."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from webcrawl.engine.backoff import ended
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.engine.scripts import script_call
from webcrawl.errors import StoreError
from webcrawl.frontier.tails import Tails

logger = logging.getLogger(__name__)

FULL_SHARE = 0.7
"""The share of a server's memory limit above which a part of the frontier moves to the store."""

_FIRST_HOLD, _LONGEST_HOLD = 0.5, 5.0


class ColdPart(ABC):
    """A part of one crawl's frontier that moves to the store while its servers are full.

    The verbs raise StoreError, and errors of UNAVAILABLE.
    """

    what: ClassVar[str]
    """Names the part in a log, as in "serving ... failed"."""
    without_store: ClassVar[str]
    """What happens while the store is unavailable, as in "the store is unavailable: ..."."""

    def __init__(self, tails: Tails, full_share: float) -> None:
        self._tails, self._full_share = tails, full_share
        self._engine, self._keys = tails.engine, tails.keys
        self._serving: asyncio.Task[None] | None = None

    @abstractmethod
    async def _serve_once(self, shards: Sequence[int]) -> float:
        """Does what is due in these shards; returns the seconds until the next call."""

    def start(self, shards: Callable[[], Sequence[int]]) -> None:
        """Starts a task that serves these shards, if there is a store."""
        if self._tails.has_store:
            self._serving = asyncio.create_task(self._serve(shards))

    async def stop(self) -> None:
        """Stops the task. An unfinished move loses nothing."""
        if self._serving is not None:
            await ended(self._serving)

    async def _serve(self, shards: Callable[[], Sequence[int]]) -> None:
        """Serves shards until it is cancelled, and continues after any failure."""
        hold = 0.0
        while True:
            try:
                pause = await self._serve_once(shards())
                hold = 0.0
            except UNAVAILABLE:
                pause = _FIRST_HOLD  # the worker's loop logs the error
            except StoreError as error:
                if not hold:
                    logger.warning(
                        "The store of %s is unavailable (%s): %s.", self.what, error, self.without_store
                    )
                pause = hold = min(_LONGEST_HOLD, hold * 2 or _FIRST_HOLD)
            except Exception:
                logger.exception("Serving %s in the store failed; trying again.", self.what)
                pause = _LONGEST_HOLD
            await asyncio.sleep(pause)

    async def _full(self, shards: Sequence[int]) -> dict[int, Any]:
        """Returns the replies of plan_seen.lua for those of these shards whose servers are full."""
        calls = [script_call("plan_seen", self._keys.queue(shard)[:1]) for shard in shards]
        plans = zip(shards, await self._engine.run_all(calls), strict=True)
        return {shard: plan for shard, plan in plans if plan.used > self._full_share * plan.limit}
