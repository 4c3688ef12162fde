"""Where an export goes: a folder, or a prefix of an S3 bucket."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from webcrawl.errors import StoreError
from webcrawl.stores.objects.s3 import FAILURES, Bucket, NoSuchObject

MANIFEST = "_export.json"
_MOST_MANIFEST_BYTES = 64_000_000


class Place(ABC):
    """Files by their names below `uri`; whatever goes wrong is a StoreError that names it."""

    uri: str

    @abstractmethod
    def workshop(self, stamp: str) -> Any:
        """A context with a local folder for unfinished files, which is gone at its end."""

    @abstractmethod
    def publish(self, path: Path, name: str) -> None:
        """Take a finished file of the workshop."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write a small file, whole or not at all."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """A small file, or None."""

    def manifest(self) -> dict[str, Any] | None:
        """What the export that is there says of itself, or None; StoreError when it is none of ours."""
        data = self.read(MANIFEST)
        if data is None:
            return None
        try:
            found = json.loads(data)
            names = [PurePosixPath(file["name"]) for file in found["files"]]
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(f"{self.uri}/{MANIFEST} is no manifest of an export: {error}") from error
        # these are deleted when the export is replaced
        if any(name.is_absolute() or ".." in name.parts for name in names):
            raise StoreError(f"{self.uri}/{MANIFEST} names files that are elsewhere")
        return dict(found)


class FolderPlace(Place):
    """A folder, which is made when it is not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.uri = str(folder)

    @contextmanager
    def workshop(self, stamp: str) -> Iterator[Path]:
        # a name with a dot: who reads the folder meanwhile passes it over
        folder = self._folder / f".export-{stamp}-{os.getpid()}"
        with self._told():
            folder.mkdir(parents=True)
        try:
            with self._told():
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, path: Path, name: str) -> None:
        with self._told():
            target = self._folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)

    def write(self, name: str, data: bytes) -> None:
        with self._told():
            unfinished = self._folder / f".{name}.{os.getpid()}"
            unfinished.write_bytes(data)
            unfinished.replace(self._folder / name)

    def delete(self, name: str) -> None:
        with self._told():
            (self._folder / name).unlink(missing_ok=True)
            with suppress(OSError):  # other files are in it
                if (self._folder / name).parent != self._folder:
                    (self._folder / name).parent.rmdir()

    def read(self, name: str) -> bytes | None:
        with self._told():
            try:
                return (self._folder / name).read_bytes()
            except FileNotFoundError:
                return None

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"cannot export to {self.uri}: {error.strerror or error}") from error


class BucketPlace(Place):
    """A prefix of a bucket; unfinished files lie in a temporary folder of this machine."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self.uri = bucket.uri().rstrip("/")

    @contextmanager
    def workshop(self, stamp: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="export") as folder, self._told():
            yield Path(folder)

    def publish(self, path: Path, name: str) -> None:
        with self._told():
            self._bucket.put(path, lambda: False, name)
            path.unlink()

    def write(self, name: str, data: bytes) -> None:
        with self._told():
            self._bucket.write(name, data)

    def delete(self, name: str) -> None:
        with self._told():
            self._bucket.delete(name)

    def read(self, name: str) -> bytes | None:
        try:
            with self._told():
                return self._bucket.read(name, 0, _MOST_MANIFEST_BYTES)
        except NoSuchObject:
            return None

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except NoSuchObject:
            raise
        except FAILURES as error:
            text = str(error)
            raise StoreError(text if self.uri in text else f"cannot export to {self.uri}: {text}") from error


def open_place(where: str) -> Place:
    """The place that a path, file:///folder or s3://bucket/prefix names; raises StoreError when it cannot be one."""
    uri = urlsplit(where)
    if uri.scheme == "s3":
        bucket = Bucket(uri.netloc, uri.path.strip("/"), setting="--output", meanwhile="the export fails")
        bucket.check()
        return BucketPlace(bucket)
    if "://" in where and uri.scheme != "file":
        raise StoreError(f"cannot export to {where!r}: use a folder or s3://bucket/prefix")
    return FolderPlace(Path(unquote(uri.path) if uri.scheme == "file" else where))
