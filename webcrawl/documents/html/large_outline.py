"""Decides where a large HTML page is read: in the process of all other pages if it is quick, or in a reader process.

A reader process takes 0.3 s to start and up to 100 MB, and most large pages are read in a tenth of a second. A slow
page would hold up all others.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from webcrawl.documents.document import Document
from webcrawl.documents.html.outline import make_outline, pack

READER = f"{__name__}:read"
"""The name of `read` for `Readers.ask`."""


def read(document: Document, **wanted: Any) -> bytes:
    """Returns what `make_outline` finds with these arguments, packed; with facts also the whole text."""
    return pack(make_outline(document, **wanted, whole_text=bool(wanted["facts"])))


def elements_of(document: Document) -> int:
    """Returns half of the tags of a page, which is about how many elements it has, in a millisecond for 2 MB."""
    return sum(chunk.count(b"<") for chunk in document.chunks()) // 2


MOST_SHARED_BYTES = 4 * 1024 * 1024
"""Larger pages are always read in a reader process."""
SECONDS = 1.0
"""The processor time after which a large page must leave the process of all other pages."""
_WITH_RESTART = 1.5 * SECONDS
_SHARE = 0.05
_MOST_SECONDS = 3.0


class Allowance:
    """The processor time that large pages may take in the process of all other pages.

    It is `_SHARE` of the time, and at most `_MOST_SECONDS` at once. `turn` is held by the large page that is read.
    """

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self._seconds = _MOST_SECONDS
        self._at = time.monotonic()

    def is_enough(self) -> bool:
        """Returns whether a page may take SECONDS, and the process start again."""
        now = time.monotonic()
        self._seconds = min(_MOST_SECONDS, self._seconds + _SHARE * (now - self._at))
        self._at = now
        return self._seconds >= _WITH_RESTART

    def spend(self, seconds: float, *, restart: bool = False) -> None:
        """Subtracts the time that a page took; `restart`: the process had to be killed."""
        self._seconds -= _WITH_RESTART if restart else min(max(seconds, 0.0), _WITH_RESTART)
