"""The interface of an object store, and the store that a URI names: OBJECT_STORES has a class for each scheme."""

from __future__ import annotations

import io
import logging
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from webcrawl.config import OBJECT_STORES, check_store_uri
from webcrawl.config.libraries import object_of_setting
from webcrawl.config.passwords import without_password
from webcrawl.errors import ConfigurationError, StoreError, StoreUnavailable

_CHUNK = 16 * 1024 * 1024
logger = logging.getLogger(__name__)


def _has_password(uri: str) -> bool:
    parts = urlsplit(uri)
    return "://" in uri and ("@" in parts.netloc or bool(parts.query))


def never() -> bool:
    """Returns False, as the argument `interrupted` of an upload without a time limit."""
    return False


class StoredObject(NamedTuple):
    """The name of an object, and its size in bytes."""

    name: str
    size: int


class ObjectStore(ABC):
    """Named objects below a URI such as s3://bucket/prefix.

    A name is a relative path with slashes, such as "crawl-1f0c/0003/5e8d". Readers see an object completely or not at
    all; a store should replace an object in one step. An object survives a crash once the method that stored it has
    returned. Methods block, and are called from several threads at once. They raise StoreError with the URI of the
    object, StoreUnavailable when the store cannot be reached just now, and NoSuchObject for an object that does not
    exist.
    """

    folder: Path | None = None
    """The local folder that has the objects as files, or None. WARC files are written there in place."""

    def __init__(self, uri: str) -> None:
        """Sets the URI that the user gave, without connecting; raises StoreError for an unusable URI."""
        self._uri = (without_password(uri) if _has_password(uri) else uri).rstrip("/")

    def uri(self, name: str = "") -> str:
        """Returns the URI of an object, or of the store, for messages: without passwords."""
        return f"{self._uri}/{name}" if name else self._uri

    def check(self) -> None:
        """Raises StoreError unless objects can be stored, StoreUnavailable if the store cannot be reached just now."""
        self.size("check")

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Stores a small object, or replaces it."""

    @abstractmethod
    def put_file(self, name: str, path: Path, interrupted: Callable[[], bool] = never) -> None:
        """Stores a copy of a local file, and verifies that it arrived.

        Calls `interrupted` between chunks, and raises StoreError once it returns True.
        """

    @abstractmethod
    def read(self, name: str, offset: int, length: int) -> bytes:
        """Returns `length` bytes of an object from `offset`; fewer only at its end."""

    @abstractmethod
    def size(self, name: str) -> int | None:
        """Returns the size of an object in bytes; None if it does not exist."""

    @abstractmethod
    def objects(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yields the objects whose names begin with `prefix`, in any order."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Deletes an object, if it exists."""

    def delete_folder(self, name: str) -> None:
        """Deletes all objects whose names begin with `name` and a slash."""
        for stored in list(self.objects(f"{name}/")):
            self.delete(stored.name)

    def file_access(self) -> dict[str, str]:
        """Returns what pyiceberg needs to open the objects by their URIs: its properties of FileIO."""
        return {}

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """Creates a local folder for files that `move_file` will store, and deletes it at the end."""
        with tempfile.TemporaryDirectory(prefix="webcrawl-") as folder:
            yield Path(folder)

    def move_file(self, name: str, path: Path) -> None:
        """Stores a file of the `workspace`, and deletes it there."""
        self.put_file(name, path)
        path.unlink()

    def fetch(self, name: str, folder: Path) -> Path:
        """Returns the path of a local copy of the object in `folder`, which is made once."""
        path = folder / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                for chunk in self.chunks(name):
                    file.write(chunk)
        return path

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yields all bytes of an object, in chunks."""
        offset = 0
        while chunk := self.read(name, offset, _CHUNK):
            yield chunk
            offset += len(chunk)
            if len(chunk) < _CHUNK:
                return


class ObjectFile(io.RawIOBase):
    """An object as a file for libraries that read parts of files; fetches only these parts. Raises StoreError."""

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


def open_store(
    uri: str, name: str, classes: Mapping[str, str] = OBJECT_STORES, *, check: bool = True
) -> ObjectStore:
    """Returns the store at a URI from the setting or argument `name`; `classes` is OBJECT_STORES.

    Raises ConfigurationError for an unknown scheme, StoreError if the store cannot be used. For a store that cannot be
    reached just now, logs a warning: it may be back before it is needed. `check=False` is for reading.
    """
    check_store_uri(name, uri, classes)
    try:
        store = _class(classes[urlsplit(uri).scheme])(uri)
        try:
            if check:
                store.check()
        except StoreUnavailable as error:
            logger.warning("%s %s: %s; trying again until it answers", name, without_password(uri), error)
    except StoreError as error:
        raise StoreError(f"{name} {without_password(uri)}: {error}") from error
    return store


def location(text: str) -> str:
    """Returns the URI of an argument that is a URI, or the path of a folder or file."""
    return text if not text or urlsplit(text).scheme else Path(text).absolute().as_uri()


def object_location(text: str) -> tuple[str, str]:
    """Returns the URI of the store and the name of the object for an argument, which is a URI or path."""
    parts = urlsplit(text)
    if parts.scheme and parts.scheme != "file":
        store, _, name = text.rpartition("/")
        return store, name
    path = Path(unquote(parts.path) if parts.scheme else text).absolute()
    return path.parent.as_uri(), path.name


def _class(path: str) -> type[ObjectStore]:
    named = object_of_setting("OBJECT_STORES", path)
    if not (isinstance(named, type) and issubclass(named, ObjectStore)):
        raise ConfigurationError(f"OBJECT_STORES: {path!r} is not a subclass of ObjectStore")
    return named
