"""The file of weights that `scrapy mine` writes and running workers reload, in a folder or an object store."""

from __future__ import annotations

from typing import TypeAlias

from webcrawl.config import StoreConfig
from webcrawl.config.file_version import FileVersion, file_version
from webcrawl.errors import NoSuchObject, StoreError
from webcrawl.policies.mined import Mined
from webcrawl.stores.objects.registry import open_store
from webcrawl.stores.objects.store import ObjectStore

NAME = "weights"
_HEAD = 64
"""The number of first bytes, which contain the checksum and so differ between two files."""
_MOST_BYTES = 1 << 28

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
