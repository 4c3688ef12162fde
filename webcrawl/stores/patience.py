"""A store that is away is waited for: what it did not take is said again until it does."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TypeVar

from webcrawl.errors import StoreUnavailable

logger = logging.getLogger(__name__)

AT_THE_END = 10.0
"""Seconds for which a store is still waited for when the crawl ends."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0

T = TypeVar("T")


def patiently(work: Callable[[], T], ending: Callable[[], bool]) -> T:
    """The result of `work`, which blocks, begun anew while its store is away; for a thread of its own.

    Raises StoreUnavailable ten seconds after `ending` has become true: what was to be done has to be done again.
    """
    pause, deadline, told = _FIRST_PAUSE, math.inf, False
    while True:
        try:
            result = work()
        except StoreUnavailable as error:
            if ending():
                deadline = min(deadline, time.monotonic() + AT_THE_END)
            if time.monotonic() > deadline:
                raise
            if not told:
                logger.warning("Pages wait for the store, which does not take them now: %s", error)
                told = True
            time.sleep(pause)
            # the end of the crawl is to be noticed soon
            pause = min(2 * pause, 1.0 if deadline < math.inf else _LONGEST_PAUSE)
        else:
            if told:
                logger.warning("The store takes pages again")
            return result
