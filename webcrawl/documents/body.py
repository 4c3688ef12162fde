"""The bytes of a document: small ones in memory, larger ones in a temporary file.

The file has no name (O_TMPFILE, or it is removed right after its creation). The system deletes it when the last process
closes it, even a killed one, so nothing has to be cleaned up.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self

from webcrawl.config import Spool
from webcrawl.documents.disk import failure
from webcrawl.errors import StoreError

CHUNK = 256 * 1024
"""The most bytes that are read from a file, or written to it, at a time."""

_LEAST_CHUNK = 32 * 1024
"""The most bytes of a body in memory while those of all bodies take more than they may."""
_MOST_MEMORY = 32 * 1024 * 1024
_DISK_SHARE = 0.5
_LOOK_AGAIN_SECONDS = 0.05

_DESCRIPTORS = Path("/proc/self/fd")


class BodyBudget:
    """What bodies may take together while they are received, and on the disk until they are gone.

    Over the budget of memory, bodies go to the disk earlier. Over that of the disk, bodies wait, all but the oldest of
    those that grow: so it ends, and then the next one. `memory` and `disk` are bytes; `held` and `spooled` are those in
    use. `add_held` and `add_spooled` may be called in any thread.
    """

    def __init__(self, memory: int = _MOST_MEMORY, disk: float = math.inf) -> None:
        self.memory, self.disk = memory, disk
        self.held = self.spooled = 0
        self._lock = threading.Lock()
        self._growing: dict[BodyWriter, None] = {}

    @classmethod
    def on_disk_of(cls, folder: Path) -> Self:
        """Returns a budget of half of the bytes that are free on the disk of a folder, which need not exist."""
        while not folder.exists():
            folder = folder.parent
        return cls(disk=shutil.disk_usage(folder).free * _DISK_SHARE)

    @property
    def chunk(self) -> int:
        """The bytes of a body in memory above which it goes to the disk."""
        return _LEAST_CHUNK if self.held > self.memory else CHUNK

    def add_held(self, size: int) -> None:
        with self._lock:
            self.held += size

    def add_spooled(self, size: int) -> None:
        with self._lock:
            self.spooled += size

    async def room(self, body: BodyWriter, until: float = math.inf) -> None:
        """Waits until a body may grow on the disk; raises TimeoutError at the monotonic time `until`."""
        self._growing.setdefault(body)
        while self.spooled >= self.disk and next(iter(self._growing)) is not body:
            if time.monotonic() >= until:
                raise TimeoutError
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    def leave(self, body: BodyWriter) -> None:
        """Notes that a body does not grow any more."""
        self._growing.pop(body, None)


class _File:
    """A file without a name; it is deleted with the last reference to it, and counts in the budget until then."""

    __slots__ = ("_budget", "_size", "descriptor")

    def __init__(self, descriptor: int, budget: BodyBudget | None = None) -> None:
        self.descriptor = descriptor
        self._budget, self._size = budget, 0

    @classmethod
    def new(cls, folder: Path, budget: BodyBudget) -> Self:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            return cls(os.dup(file.fileno()), budget)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)
            if self._budget is not None:
                self._budget.add_spooled(-self._size)

    def read(self, size: int, position: int) -> bytes:
        """Returns up to `size` bytes; fewer at the end."""
        return os.pread(self.descriptor, size, position)

    def append(self, data: bytes) -> None:
        self._size += len(data)
        if self._budget is not None:
            self._budget.add_spooled(len(data))
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]


class Body:
    """Immutable bytes, made from bytes or by a `BodyWriter`. Several threads may read them at a time.

    `bytes(body)` loads the whole body into memory; the other methods do not.
    """

    __slots__ = ("_data", "_digest", "_file", "_size")

    def __init__(self, data: bytes = b"") -> None:
        self._data: bytes | None = data
        self._file: _File | None = None
        self._size = len(data)
        self._digest: str | None = None

    @classmethod
    def at(cls, path: str) -> Self:
        """Opens the body of another process by the `Body.path` that it sent; raises OSError."""
        body = cls()
        body._data, body._file = None, _File(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        body._size = os.fstat(body._file.descriptor).st_size
        return body

    def __len__(self) -> int:
        """The number of bytes."""
        return self._size

    def __bool__(self) -> bool:
        """True even when empty."""
        return True

    def __bytes__(self) -> bytes:
        return self._data if self._data is not None else b"".join(self.chunks())

    def __repr__(self) -> str:
        return f"<Body {self._size} bytes in {'memory' if self._file is None else 'a file'}>"

    def start(self, size: int) -> bytes:
        """Returns the first `size` bytes, or all if there are fewer."""
        if self._data is not None:
            return self._data if self._size <= size else self._data[:size]
        return b"".join(self._read(0, min(size, self._size)))

    def chunks(self) -> Iterator[bytes]:
        """Yields all bytes, at most `CHUNK` at a time if they are in a file."""
        return iter((self._data,)) if self._data is not None else self._read(0, self._size)

    def open(self) -> BinaryIO:
        """Returns a new stream at the start of the body, independent of all others."""
        return io.BytesIO(self._data) if self._data is not None else io.BufferedReader(_Reader(self))

    @property
    def path(self) -> str | None:
        """The path where other processes of this user can open the body while it exists.

        None for a body in memory, and on systems without /proc (macOS): its bytes must be sent instead.
        """
        if self._file is None or not _DESCRIPTORS.is_dir():
            return None
        return f"/proc/{os.getpid()}/fd/{self._file.descriptor}"

    @property
    def is_spooled(self) -> bool:
        """Whether the body is in a file."""
        return self._file is not None

    @property
    def digest(self) -> str:
        """The SHA-1 as in WARC files: "sha1:" and 32 Base32 characters; computed once."""
        if self._digest is None:
            sha1 = hashlib.sha1(usedforsecurity=False)
            for chunk in self.chunks():
                sha1.update(chunk)
            self._digest = base32(sha1.digest())
        return self._digest

    def _read(self, position: int, end: int) -> Iterator[bytes]:
        assert self._file is not None
        while position < end:
            chunk = self._file.read(min(CHUNK, end - position), position)
            if not chunk:
                raise StoreError(f"a spooled body of {self._size} bytes ends after {position}")
            yield chunk
            position += len(chunk)


class BodyWriter:
    """Collects the chunks of a body: `add` never blocks, `spill` and `finish` may write to the disk.

    When `is_full` is true after an `add`, call `spill`, in any thread, so that little more than `CHUNK` is in memory.
    `digests`: whether to compute the SHA-1 while the body is collected. `budget`: is shared with other bodies; call
    `close` then, whatever happens. `spill` and `finish` raise StoreUnavailable if the disk is full, and StoreError if
    writing fails for another reason.
    """

    def __init__(self, spool: Spool, *, digests: bool = False, budget: BodyBudget | None = None) -> None:
        self._spool = spool
        self._budget = budget or BodyBudget()
        self._sha1 = hashlib.sha1(usedforsecurity=False) if digests else None
        self._chunks: list[bytes] = []
        self._held = 0
        self._file: _File | None = None
        self.size = 0
        """Bytes added."""

    @property
    def is_full(self) -> bool:
        return self._held >= self._budget.chunk

    def add(self, data: bytes) -> None:
        self._chunks.append(data)
        self._held += len(data)
        self.size += len(data)
        self._budget.add_held(len(data))

    def start(self, size: int) -> bytes:
        """Returns the first `size` bytes added so far."""
        if self._file is not None:
            return self._file.read(size, 0)
        return b"".join(self._chunks)[:size]

    def spill(self) -> None:
        """Writes the chunks in memory to the file."""
        data = b"".join(self._chunks)
        if self._sha1 is not None:
            self._sha1.update(data)
        try:
            if self._file is None:
                self._file = _File.new(self._spool.folder, self._budget)
            self._file.append(data)
        except OSError as error:
            raise failure("spool a body in", self._spool.folder, error) from error
        self._chunks.clear()
        self._release()

    def close(self) -> None:
        """Gives back the memory of a body that is finished or given up. Its file counts until nobody has it."""
        self._release()
        self._budget.leave(self)

    def _release(self) -> None:
        self._budget.add_held(-self._held)
        self._held = 0

    def finish(self) -> Body:
        """Returns the collected body."""
        if self._file is None and self.size <= self._spool.memory:
            return Body(b"".join(self._chunks))
        if self._held:
            self.spill()
        body = Body()
        body._data, body._file, body._size = None, self._file, self.size
        if self._sha1 is not None:
            body._digest = base32(self._sha1.digest())
        return body


class _Reader(io.RawIOBase):
    def __init__(self, body: Body) -> None:
        self._body = body
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        file = self._body._file
        assert file is not None
        data = file.read(len(buffer), self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self._body)}[whence]
        if base + offset < 0:
            raise ValueError(f"negative position {base + offset}")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position


def base32(sha1: bytes) -> str:
    """Returns a SHA-1 as it is written in WARC files: "sha1:" and 32 Base32 characters.

    Splits every number into two halves, five times, until each group of five bits has its own byte. It takes a third of
    the time of `base64.b32encode`.
    """
    number = int.from_bytes(sha1, "big")
    for low, high, shift in _HALVES:
        number = number & low | (number & high) << shift
    return "sha1:" + number.to_bytes(32, "big").translate(_BASE32).decode("ascii")


def _halves(bits: int) -> tuple[int, int, int]:
    """Returns masks of the lower and upper halves of numbers of 2 * `bits` bits, and the shift of the upper halves."""
    room = bits * 8 // 5
    low = sum(((1 << bits) - 1) << bit for bit in range(0, 256, 2 * room))
    return low, low << bits, room - bits


_BASE32 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" + bytes(224)
_HALVES = [_halves(bits) for bits in (80, 40, 20, 10, 5)]
