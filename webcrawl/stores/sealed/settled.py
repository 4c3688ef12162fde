"""Entries of the engine that become a run, in little memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from webcrawl.stores.sealed.runs import DIGEST, SealedRun, SortedTexts, may_have, url_number, write_run
from webcrawl.stores.sealed.tables import Positions

_LINES_AT_ONCE = 1 << 12


class Lines:
    """Byte strings, one after the other.

    As objects they would take twice as much, and what the process makes meanwhile would lie between them, so that
    their memory would not return to the system.
    """

    def __init__(self) -> None:
        self._content = bytearray()
        self._ends = array("q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[bytes]:
        return map(self._line, range(len(self)))

    def add(self, line: bytes) -> None:
        self._content += line
        self._ends.append(len(self._content))

    def parts(self, order: Positions) -> Iterator[tuple[Positions, list[bytes]]]:
        """Yields some of the positions in `order`, and the lines there, until all have come."""
        for start in range(0, len(order), _LINES_AT_ONCE):
            part = order[start : start + _LINES_AT_ONCE]
            yield part, [self._line(number) for number in part.tolist()]

    def _line(self, number: int) -> bytes:
        return bytes(self._content[self._ends[number] : self._ends[number + 1]])


def write_settled(
    folder: Path, texts: Lines, payloads: Lines, ended: Sequence[int], older: Sequence[SealedRun] | None
) -> None:
    """Writes the files of a run with entries of the engine: SimHashes (8 bytes) with URLs, and lines of payloads.

    The texts of a URL in `older` runs are outdated if `texts` has the URL, or `ended` has its hash. `older` is None if
    some of them cannot be read: they may have any URL.
    """
    urls = np.fromiter((url_number(text[8:]) for text in texts), np.uint64, len(texts))
    simhashes = np.fromiter((int.from_bytes(text[:8], "big") for text in texts), np.uint64, len(texts))
    digests = np.fromiter((line[: 2 * DIGEST] for line in payloads), f"S{2 * DIGEST}", len(payloads))
    again = urls if older is None else urls[may_have(older, urls)]

    def sorted_texts() -> Iterator[SortedTexts]:
        for part, lines in texts.parts(np.argsort(simhashes, kind="stable")):
            yield simhashes[part], [line[8:] for line in lines]

    write_run(
        folder,
        sorted_texts(),
        (lines for _, lines in payloads.parts(np.argsort(digests, kind="stable"))),
        (len(texts), len(payloads)),
        np.concatenate([again, np.array(ended, np.uint64)]),
    )
