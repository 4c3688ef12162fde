"""Merges sealed runs into one, with memory for a part of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from webcrawl.errors import StoreError
from webcrawl.stores.objects.store import never
from webcrawl.stores.sealed.runs import DIGEST, SealedRun, SortedTexts, url_number, write_run
from webcrawl.stores.sealed.tables import Numbers

T = TypeVar("T")

_LINES_AT_ONCE = 1 << 12
"""Few, because a worker goes on meanwhile, and the memory of many small objects does not return to the system."""


def merge_runs(
    runs: Sequence[SealedRun],
    folder: Path,
    *,
    is_oldest: bool,
    interrupted: Callable[[], bool] = never,
) -> None:
    """Writes the files of a run with the entries of `runs`, the oldest first, which must follow each other.

    `is_oldest`: no run is older, so the new run need not tell which texts of older runs are outdated. Raises StoreError
    once `interrupted` returns True.
    """
    texts, payloads = sum(run.texts for run in runs), sum(run.payloads for run in runs)
    outdated = np.unique(np.concatenate([run.superseded for run in runs]))
    write_run(
        folder,
        _until(interrupted, _merged_texts(runs, _bounds(texts))),
        _until(interrupted, _merged_payloads(runs, _bounds(payloads))),
        (texts, payloads),
        outdated[:0] if is_oldest else outdated,
    )


def _until(interrupted: Callable[[], bool], parts: Iterable[T]) -> Iterator[T]:
    for part in parts:
        if interrupted():
            raise StoreError("a merge of sealed runs was interrupted")
        yield part


def _bounds(entries: int) -> Numbers:
    """Returns the number with which each part begins, if parts have about `_LINES_AT_ONCE` of the entries."""
    bits = max(0, (entries // _LINES_AT_ONCE).bit_length())
    return np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits) if bits else np.zeros(1, np.uint64)


def _merged_texts(runs: Sequence[SealedRun], bounds: Numbers) -> Iterator[SortedTexts]:
    for parts in zip(*(run.sorted_texts(bounds) for run in runs), strict=True):
        kept = [
            _current(simhashes, lines, [newer for newer in runs[number + 1 :] if len(newer.superseded)])
            for number, (simhashes, lines) in enumerate(parts)
        ]
        simhashes = np.concatenate([part[0] for part in kept])
        lines = [line for part in kept for line in part[1]]
        order = np.argsort(simhashes, kind="stable")
        yield simhashes[order], [lines[number] for number in order.tolist()]


def _current(simhashes: Numbers, lines: list[bytes], newer: Sequence[SealedRun]) -> SortedTexts:
    """Returns the texts that are not outdated by a newer run."""
    if not newer:
        return simhashes, lines
    numbers = np.fromiter(map(url_number, lines), np.uint64, len(lines))
    current = np.ones(len(lines), np.bool_)
    for run in newer:
        current &= ~np.isin(numbers, run.superseded)
    return simhashes[current], [lines[number] for number in np.flatnonzero(current).tolist()]


def _merged_payloads(runs: Sequence[SealedRun], bounds: Numbers) -> Iterator[list[bytes]]:
    """Yields the lines of all payloads in order. A payload that several runs have gets the line of the newest run."""
    for parts in zip(*(run.payload_lines(bounds) for run in runs), strict=True):
        if len(parts) == 1:
            yield parts[0]
            continue
        newest = {line[: 2 * DIGEST]: line for lines in parts for line in lines}
        yield sorted(newest.values())
