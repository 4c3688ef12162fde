"""Reads the weights of `scrapy mine` at the start of a worker, and again when they have changed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.mining.weights_file import WeightsFile
from webcrawl.policies.mined import Mined

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
_LOOK_FAR_SECONDS = 60.0
"""For a file in an object store, each look at which is a request."""
_WAIT_SECONDS = 5.0


class MinedChanges:
    """Passes the weights to `use`. What was read before stays in use while the file is damaged or out of reach."""

    def __init__(self, file: WeightsFile, use: Callable[[Mined], None]) -> None:
        self._file, self._use = file, use
        self._every = _LOOK_SECONDS if file.is_local else _LOOK_FAR_SECONDS
        self._next_look = 0.0
        self._look: asyncio.Future[Mined | None] | None = None
        self._is_first = True
        self._told = False

    async def update(self) -> None:
        """Looks at the file if it is time; call it in each round.

        Only the first look at an object store is waited for, and not for long: later ones must delay no heartbeat.
        """
        if self._look is None:
            if time.monotonic() < self._next_look:
                return
            self._next_look = time.monotonic() + self._every
            self._look = asyncio.get_running_loop().run_in_executor(None, self._file.changed)
            if self._is_first or self._file.is_local:
                await asyncio.wait({self._look}, timeout=_WAIT_SECONDS)
            self._is_first = False
        if self._look.done():
            look, self._look = self._look, None
            self._take(look)

    def _take(self, look: asyncio.Future[Mined | None]) -> None:
        try:
            mined = look.result()
        except StoreError as error:
            self._tell(error)
            return
        self._told = False
        if mined is not None:
            self._use(mined)
            logger.info("The weights of %s, mined at %s, are in use.", self._file.name, mined.made)

    def _tell(self, error: StoreError) -> None:
        """Logs an error; of a store that is out of reach only once until it answers."""
        if isinstance(error, StoreUnavailable):
            if self._told:
                return
            self._told = True
        logger.error("%s. The weights that were read before stay in use.", error)
