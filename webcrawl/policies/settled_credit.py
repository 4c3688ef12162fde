"""The importance of pages once all credit has settled: the state that AOPIC approaches if pages are fetched forever.

A crawl fetches most pages once, so credit that reaches a page later goes no further; see webcrawl.policies.importance.
If the links of all pages are known in the end, the credit can flow on along them until it no longer changes. This
state is the PageRank of Page, Brin, Motwani and Winograd (1998) with a damping factor of 0.9, by power iteration.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from webcrawl.policies.importance import LAMBDA_PART

Indices: TypeAlias = npt.NDArray[np.integer[Any]]
Reals: TypeAlias = npt.NDArray[np.float64]

_TOLERANCE = 1e-4
"""The part of all credit that may still move in a round."""
_MOST_ROUNDS = 100
"""After this many rounds, less than _TOLERANCE is unsettled: a tenth of the credit goes to Lambda in each round."""
_BLOCK = 1 << 20
"""Links that are processed at once; each takes some 30 bytes."""


def settled(first: Indices, targets: Indices) -> Reals:
    """Returns the credit that each page gets by links in the settled state, as a multiple of the mean credit.

    Page p links to the pages `targets[first[p]:first[p + 1]]`, each once. Pages without links give all to Lambda, and
    Lambda gives the same to all pages; that part is left out, as in `webcrawl.policies.importance`.
    """
    pages = len(first) - 1
    number = np.diff(first)
    blocks = _blocks(first)
    share = np.divide(1 - 1 / LAMBDA_PART, number, where=number > 0, out=np.zeros(pages))
    credit = np.ones(pages)
    for _ in range(_MOST_ROUNDS):
        each, brought = credit * share, np.zeros(pages)
        for start, end in blocks:
            given = np.repeat(each[start:end], number[start:end])
            brought += np.bincount(targets[first[start] : first[end]], weights=given, minlength=pages)
        after = brought + (1 - brought.sum() / max(1, pages))
        change = float(np.abs(after - credit).sum())
        credit = after
        if change <= _TOLERANCE * pages:
            break
    return brought


def _blocks(first: Indices) -> list[tuple[int, int]]:
    """Divides the pages into ranges with about _BLOCK links each."""
    pages, blocks, start = len(first) - 1, list[tuple[int, int]](), 0
    while start < pages:
        end = int(np.searchsorted(first, first[start] + _BLOCK, side="right")) - 1
        end = min(max(end, start + 1), pages)
        blocks.append((start, end))
        start = end
    return blocks
