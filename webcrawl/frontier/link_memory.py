"""The links along which credit has flowed, in files of DATA_DIR, until the crawl is over.

    importance/broad/host:4711:a1b2c3.links     crawl and worker; records of 32-bit numbers, little-endian:
                                                page, number of links, each link

Numbers are CRC-32 of normalized URLs. Pages with the same number share their importance: of a million pages, some 230.
Links are written before their page is acknowledged, so a `kill -9` loses none of an acknowledged page. The crawl does
not depend on the files: after a power failure, on a full disk or with other machines, importance is only less exact.
"""

from __future__ import annotations

import logging
import sys
from array import array
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias
from zlib import crc32

if TYPE_CHECKING:  # NumPy is slow to import, and only the end of a crawl needs it
    import numpy as np
    import numpy.typing as npt

Numbers: TypeAlias = "npt.NDArray[np.integer[Any]]"

logger = logging.getLogger(__name__)

MOST_LINKS = 20_000_000
"""The most links of a crawl: 80 MB, on disk and in the memory of the worker that reads them in the end."""

_MOST_BYTES = 5 * MOST_LINKS
"""The most bytes of all files: each worker stops at its own MOST_LINKS, and pages may be fetched again."""
_BUFFER = 1 << 16
_BLOCK = 1 << 20
_SUFFIX = ".links"
_NO_PAGE = -1


class LinkMemory:
    """The file of one worker, created for the first page. After a disk error, which is logged, nothing is written."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._path = folder / f"{worker}{_SUFFIX}"
        self._file: BinaryIO | None = None
        self._left = MOST_LINKS

    def remember(self, page: str, links: Collection[str]) -> None:
        """Adds the links of a page, which replace the links of an earlier fetch."""
        if self._left <= 0:
            return
        self._left -= len(links) + 1
        # number_of, without a call for each link of a crawl
        record = array("I", [number_of(page), len(links), *[crc32(url.encode()) for url in links]])
        if sys.byteorder == "big":
            record.byteswap()
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("ab", buffering=_BUFFER)
            self._file.write(record)
        except OSError as error:
            self._give_up(error)

    def flush(self) -> None:
        """Writes the buffer, so that it survives the process."""
        try:
            if self._file is not None:
                self._file.flush()
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Writes the buffer and closes the file; `remember` opens the file again."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _give_up(self, error: OSError) -> None:
        logger.warning(
            "%s cannot be written: %s. The importance of pages will be less exact.", self._path, error
        )
        self._left = 0
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # closing tries again to write the buffer
                file.close()


def has_some(folder: Path) -> bool:
    """Returns whether there are files in a folder."""
    return next(folder.glob(f"*{_SUFFIX}"), None) is not None


def forget(folder: Path) -> None:
    """Deletes the files in a folder."""
    for path in folder.glob(f"*{_SUFFIX}"):
        path.unlink(missing_ok=True)


class Remembered(NamedTuple):
    """The links between pages: page p links to `targets[first[p]:first[p + 1]]`, each once, and not to itself."""

    first: Numbers
    targets: Numbers
    known: int
    """The pages whose links are known, including pages without links."""


def remembered(folder: Path, pages: Numbers) -> Remembered | None:
    """Returns the links between the pages with these sorted, unique numbers; None without links or with too many.

    Links to other pages are left out. Of several fetches of a page, the last counts. Raises OSError.
    """
    import numpy as np

    read = _read(folder)
    if read is None:
        return None
    numbers, starts = read
    counts = numbers[starts + 1].astype(np.int64)
    indexes = _indexes(pages, numbers)
    del numbers, read
    last = _last_records(indexes[starts])
    targets, first, end = np.empty(int(counts[last].sum()), np.int32), np.zeros(len(pages) + 1, np.int64), 0
    for start, count in zip(starts[last].tolist(), counts[last].tolist(), strict=True):
        links = indexes[start + 2 : start + 2 + count]
        links = links[(links != _NO_PAGE) & (links != indexes[start])]
        targets[end : end + len(links)] = links
        first[indexes[start] + 1] = len(links)
        end += len(links)
    return Remembered(np.cumsum(first, out=first), targets[:end], len(last))


def _last_records(pages: Numbers) -> Numbers:
    """Returns the index of the last record of each page, by page; `pages` has the page of each record."""
    import numpy as np

    order = np.argsort(pages, kind="stable")
    ends = np.flatnonzero(np.diff(pages[order], append=_NO_PAGE - 1))
    last: Numbers = order[ends[pages[order[ends]] != _NO_PAGE]]
    return last


def _read(folder: Path) -> tuple[Numbers, Numbers] | None:
    """Returns the numbers in all files, and the indexes at which records begin; None if there are none or too many."""
    import numpy as np

    paths = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime)
    if not paths or sum(path.stat().st_size for path in paths) > _MOST_BYTES:
        return None
    parts, starts, offset = list[Numbers](), array("q"), 0
    for path in paths:
        numbers = np.fromfile(path, "<u4")
        start, end = 0, len(numbers)
        while start + 2 <= end and (after := start + 2 + int(numbers[start + 1])) <= end:
            starts.append(offset + start)
            start = after
        parts.append(numbers[:start])  # a kill may have cut the last record
        offset += start
    return parts[0] if len(parts) == 1 else np.concatenate(parts), np.frombuffer(starts, np.int64)


def _indexes(pages: Numbers, numbers: Numbers) -> Numbers:
    """Returns the index of each number among the pages, or _NO_PAGE."""
    import numpy as np

    indexes = np.full(len(numbers), _NO_PAGE, np.int32)
    for start in range(0, len(numbers) if len(pages) else 0, _BLOCK):
        block = numbers[start : start + _BLOCK]
        nearest = np.minimum(np.searchsorted(pages, block), len(pages) - 1)
        indexes[start : start + _BLOCK] = np.where(pages[nearest] == block, nearest, _NO_PAGE)
    return indexes


def number_of(url: str) -> int:
    """Returns the number of a normalized URL in the files."""
    return crc32(url.encode())
