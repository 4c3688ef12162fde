"""The file of weights that `scrapy mine` writes and running workers reload, in a folder or an object store."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TypeAlias

from webcrawl.config import StoreConfig
from webcrawl.config.file_version import FileVersion, file_version
from webcrawl.errors import NoSuchObject, StoreError, StoreUnavailable
from webcrawl.policies.mined import Mined
from webcrawl.stores.objects.store import ObjectStore, open_store

logger = logging.getLogger(__name__)

NAME = "weights"
_HEAD = 64
"""The number of first bytes, which contain the checksum and so differ between two files."""
_MOST_BYTES = 1 << 28
_LOOK_SECONDS = 2.0
_LOOK_FAR_SECONDS = 60.0
"""Seconds between two looks at a file in an object store: each look is a request."""
_WAIT_SECONDS = 5.0

_Seen: TypeAlias = FileVersion | bytes | None


class WeightsFile:
    """Reads and writes the weights below a URI of an object store. Methods raise StoreError."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self._seen: _Seen = None
        self.name = store.uri(NAME)
        self.is_local = store.folder is not None

    @classmethod
    def of(cls, config: StoreConfig) -> WeightsFile:
        """Returns the file of a configuration, whether it exists or not."""
        return cls(open_store(config.mined, "STORE_URI", config.object_stores, check=False))

    def write(self, mined: Mined) -> None:
        """Replaces the file in one step."""
        self.store.put(NAME, mined.pack())

    def changed(self) -> Mined | None:
        """Returns the weights if the file is new or has changed since the last call.

        Raises StoreError for a damaged file, once for each version of the file.
        """
        now = self._version()
        if now is None or now == self._seen:
            return None
        content = self.store.read(NAME, 0, _MOST_BYTES)
        self._seen = now
        try:
            return Mined.unpack(content)
        except ValueError as error:
            raise StoreError(f"{self.name} is not used: {error}") from error

    def _version(self) -> _Seen:
        """Returns a value that changes with the file; None if there is no file."""
        if self.store.folder is not None:
            return file_version(self.store.folder / NAME)
        try:
            return self.store.read(NAME, 0, _HEAD)
        except NoSuchObject:
            return None


class MinedChanges:
    """Passes the weights of `scrapy mine` to `use`, at the start of a worker and again when they have changed.

    The weights that were read before stay in use while the file is damaged or out of reach.
    """

    def __init__(self, file: WeightsFile, use: Callable[[Mined], None]) -> None:
        self._file, self._use = file, use
        self._every = _LOOK_SECONDS if file.is_local else _LOOK_FAR_SECONDS
        self._next_look = 0.0
        self._look: asyncio.Future[Mined | None] | None = None
        self._is_first = True
        self._was_logged = False

    async def update(self) -> None:
        """Looks at the file if it is time; call it in each round.

        Waits only for the first look at an object store, and not for long: later looks must delay no heartbeat.
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
            self._log(error)
            return
        self._was_logged = False
        if mined is not None:
            self._use(mined)
            logger.info("The weights of %s, mined at %s, are in use.", self._file.name, mined.made)

    def _log(self, error: StoreError) -> None:
        """Logs an error, but only the first one while a store is out of reach."""
        if isinstance(error, StoreUnavailable):
            if self._was_logged:
                return
            self._was_logged = True
        logger.error("%s. The weights that were read before stay in use.", error)
