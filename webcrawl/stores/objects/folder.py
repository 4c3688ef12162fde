"""Objects as files in a folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from webcrawl.documents.disk import failure, flush
from webcrawl.errors import NoSuchObject, StoreError
from webcrawl.stores.objects.store import ObjectStore, StoredObject, never

_CHUNK = 1024 * 1024
_UNFINISHED = ".new"
_WORKSPACE = ".unfinished-"


class FolderStore(ObjectStore):
    """Files below file:///folder, which is created with the first object.

    Each file is written under another name, flushed to the disk (fsync) and renamed. The names of new files and folders
    are flushed too, because a power failure would lose them otherwise.
    """

    folder: Path

    def __init__(self, uri: str) -> None:
        self.folder = Path(unquote(urlsplit(uri).path))
        super().__init__(str(self.folder))
        self._changing_folders = threading.Lock()
        """Prevents `delete` from removing a folder that was created for a new file."""

    def check(self) -> None:
        existing = next(path for path in (self.folder, *self.folder.parents) if path.exists())
        if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
            raise StoreError(f"{existing} is not a folder that can be written to")

    def put(self, name: str, data: bytes) -> None:
        self._write(name, lambda file: file.write(data))

    def put_file(self, name: str, path: Path, interrupted: Callable[[], bool] = never) -> None:
        def copy(target: BinaryIO) -> None:
            with path.open("rb") as source:
                while chunk := source.read(_CHUNK):
                    target.write(chunk)
                    if interrupted():
                        raise StoreError(f"copying {path} to {self.uri(name)} was interrupted")

        self._write(name, copy)

    def read(self, name: str, offset: int, length: int) -> bytes:
        path = self._path(name)
        try:
            with path.open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except FileNotFoundError as error:
            raise NoSuchObject(f"{path} does not exist") from error
        except OSError as error:
            raise failure("read", path, error) from error

    def size(self, name: str) -> int | None:
        try:
            path = self._path(name)
            return path.stat().st_size
        except (FileNotFoundError, NotADirectoryError, NoSuchObject):
            return None
        except OSError as error:
            raise failure("read", path, error) from error

    def objects(self, prefix: str = "") -> Iterator[StoredObject]:
        for parent, folders, files in os.walk(self.folder / prefix.rpartition("/")[0]):
            folders[:] = [name for name in folders if not name.startswith(_WORKSPACE)]
            for path in (Path(parent, file) for file in files if not file.endswith(_UNFINISHED)):
                name = path.relative_to(self.folder).as_posix()
                if name.startswith(prefix):
                    with suppress(FileNotFoundError):  # deleted meanwhile
                        yield StoredObject(name, path.stat().st_size)

    def delete(self, name: str) -> None:
        path = self._path(name)
        try:
            for file in (path, _unfinished(path)):
                file.unlink(missing_ok=True)
        except OSError as error:
            raise failure("delete", path, error) from error
        if path.parent != self.folder:
            with self._changing_folders, suppress(OSError):  # the folder has other files
                path.parent.rmdir()

    def delete_folder(self, name: str) -> None:
        path = self._path(name)
        try:
            with suppress(FileNotFoundError):
                shutil.rmtree(path)
        except OSError as error:
            raise failure("delete", path, error) from error

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """Creates a hidden folder beside the objects, so that `move_file` only renames.

        Deletes those that killed processes left: nobody locks them.
        """
        try:
            _make(self.folder)
            self._delete_left()
            folder, lock = self._locked_folder()
        except OSError as error:
            raise failure("make", self.folder, error) from error
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)

    def _locked_folder(self) -> tuple[Path, int]:
        while True:
            folder = self.folder / f"{_WORKSPACE}{uuid.uuid4().hex}"
            folder.mkdir()
            with suppress(FileNotFoundError):
                lock = os.open(folder, os.O_RDONLY)
                fcntl.flock(lock, fcntl.LOCK_EX)
                if folder.exists():
                    return folder, lock
                os.close(lock)  # another process deleted it before it was locked

    def _delete_left(self) -> None:
        for left in self.folder.glob(f"{_WORKSPACE}*"):
            with suppress(OSError):  # it is in use, or was deleted meanwhile
                lock = os.open(left, os.O_RDONLY)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(left, ignore_errors=True)
                finally:
                    os.close(lock)

    def move_file(self, name: str, path: Path) -> None:
        target = self._path(name)
        try:
            with path.open("rb") as file:
                os.fsync(file.fileno())
            with self._changing_folders:
                _make(target.parent)
                path.replace(target)
            flush(target.parent)
        except OSError as error:
            raise failure("write", target, error) from error

    def fetch(self, name: str, folder: Path) -> Path:
        """Returns the path of the object's file: nothing is copied."""
        path = self._path(name)
        if not path.exists():
            raise NoSuchObject(f"{path} does not exist")
        return path

    def _path(self, name: str) -> Path:
        """Returns the path of an object; raises NoSuchObject for a name that leads out of the folder.

        Names may come from a database or a manifest that somebody else has written.
        """
        if name.startswith("/") or "\0" in name or ".." in name.split("/"):
            raise NoSuchObject(f"{name!r} is no name of an object in {self.folder}")
        return self.folder / name

    def _write(self, name: str, write: Callable[[BinaryIO], object]) -> None:
        path = self._path(name)
        unfinished = _unfinished(path)
        try:
            with self._created(unfinished) as file:
                try:
                    write(file)
                    file.flush()
                    os.fsync(file.fileno())
                    unfinished.replace(path)
                except BaseException:
                    # otherwise repeated attempts would fill a disk
                    with suppress(OSError):
                        unfinished.unlink()
                    raise
            flush(path.parent)
        except OSError as error:
            raise failure("write", path, error) from error

    def _created(self, path: Path) -> BinaryIO:
        """Opens an empty file that no other process writes: it is locked until it is closed."""
        while True:
            file = self._opened(path)
            fcntl.flock(file, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    file.truncate()
                    return file
            file.close()  # another process has finished or deleted it before it was locked

    def _opened(self, path: Path) -> BinaryIO:
        """Opens a file to write, without a change of what it has, and creates it and its folder if they are missing."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.fdopen(os.open(path, flags, 0o666), "wb")
        except FileNotFoundError:
            with self._changing_folders:
                _make(path.parent)
                return os.fdopen(os.open(path, flags, 0o666), "wb")


def _unfinished(path: Path) -> Path:
    """Returns the path of a file that is renamed to `path` when it is complete; a killed process leaves it behind."""
    return path.with_name(path.name + _UNFINISHED)


def _make(folder: Path) -> None:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        flush(path.parent)
