"""An object as a file for libraries that read parts of files."""

from __future__ import annotations

import io
import os

from webcrawl.stores.objects.store import ObjectStore


class ObjectFile(io.RawIOBase):
    """An object, of which only the parts that are read are fetched; raises StoreError."""

    def __init__(self, store: ObjectStore, name: str, size: int) -> None:
        self._store, self._name, self._size = store, name, size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(self._size - self._at, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._store.read(self._name, self._at, wanted) if wanted else b""
        self._at += len(data)
        return data
