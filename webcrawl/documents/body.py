"""The bytes of a document: small ones in memory, larger ones in a temporary file.

The file has no name (O_TMPFILE, or it is removed right after its creation). The system deletes it when the last process
closes it, even a killed one, so nothing has to be cleaned up.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Self

from webcrawl.errors import StoreError

CHUNK = 256 * 1024
"""The most bytes that are read from a file, or written to it, at a time."""

_DESCRIPTORS = Path("/proc/self/fd")


class SpoolFile:
    """A file without a name; it is deleted with the last reference to it.

    `count` is called with the bytes that the file gains, and with their negative number when it is deleted.
    """

    __slots__ = ("_count", "_size", "descriptor")

    def __init__(self, descriptor: int, count: Callable[[int], None] | None = None) -> None:
        self.descriptor = descriptor
        self._count, self._size = count, 0

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)
            if self._count is not None:
                self._count(-self._size)

    def read(self, size: int, position: int) -> bytes:
        """Returns up to `size` bytes; fewer at the end."""
        return os.pread(self.descriptor, size, position)

    def append(self, data: bytes) -> None:
        self._size += len(data)
        if self._count is not None:
            self._count(len(data))
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
        self._file: SpoolFile | None = None
        self._size = len(data)
        self._digest: str | None = None

    @classmethod
    def at(cls, path: str) -> Self:
        """Opens the body of another process by the `Body.path` that it sent; raises OSError."""
        file = SpoolFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        return cls.of_file(file, os.fstat(file.descriptor).st_size)

    @classmethod
    def of_file(cls, file: SpoolFile, size: int, digest: str | None = None) -> Self:
        """Returns the body of `size` bytes in a file; `digest` is its digest, if that is known."""
        body = cls()
        body._data, body._file, body._size, body._digest = None, file, size, digest
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
            import hashlib  # it loads OpenSSL, and processes that read documents need no digest

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
