"""Parses large HTML in a thread with a time limit, so that it does not hold up the crawl.

`webcrawl.documents.markup_bounds` removes costly markup that counts reveal; this module limits everything else. The
parser cannot be interrupted: a thread that exceeds the limit runs on until it is done or the process ends. While such a
thread runs, each large page is first parsed in a reader process, which can be killed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent import futures

from webcrawl.documents.document import Document, Parsed
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.mime.facts import Facts
from webcrawl.documents.mime.reader_processes import Readers
from webcrawl.errors import ResourcesExhausted, UnreadableDocument

BYTES = 512 * 1024
"""The worst known markup of this size takes a second to parse. A thread adds 2 to 8 ms to the 80 ms of a usual page."""
SECONDS = 3.0
"""The limit of processor time; 8 MiB of usual markup take 0.3 s."""
_LATE = f"takes the parser more than {SECONDS:g} seconds"


def is_large(document: Document) -> bool:
    """Returns whether a document is HTML that must be parsed here."""
    return len(document) > BYTES and is_html(document.mime_type)


class TimedParser:
    """Parses the large pages of one worker, one after another; its methods are called in one event loop."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._turn = asyncio.Lock()
        self._late = 0

    async def parse(self, document: Document) -> None:
        """Sets the tree of a document, or its `refused`."""
        try:
            async with self._turn:
                if not self._late:
                    document.take(await self._parsed(document))
                    return
            await self._readers.read("webcrawl.documents.html.timed_parse:read", document)
            document.take(await self._parsed(document))
        except UnreadableDocument as error:
            document.refused = str(error)

    async def _parsed(self, document: Document) -> Parsed:
        attempt = _Attempt(document)
        parsed = asyncio.wrap_future(attempt.parsed)
        while (seconds := attempt.left()) > 0:
            await asyncio.wait([parsed], timeout=seconds)
        if attempt.parsed.done():
            return await parsed
        self._late += 1
        parsed.add_done_callback(self._ended)
        raise UnreadableDocument(_LATE)

    def _ended(self, parsed: asyncio.Future[Parsed]) -> None:
        self._late -= 1
        parsed.exception()  # retrieved, so that asyncio does not log it


class BlockingTimedParser:
    """Parses large pages where there is no event loop, one after another."""

    def __init__(self) -> None:
        self._last: _Attempt | None = None

    def parse(self, document: Document) -> None:
        """Sets the tree of a large document, or its `refused`. Waits until an earlier late thread has ended."""
        if not is_large(document):
            return
        if self._last is not None:
            futures.wait([self._last.parsed])
        self._last = _Attempt(document)
        try:
            document.take(self._last.result())
        except UnreadableDocument as error:
            document.refused = str(error)


def read(document: Document) -> Facts:
    """A reader that returns no facts; raises UnreadableDocument if parsing takes too long."""
    _Attempt(document).result()
    return Facts()


class _Attempt:
    """A daemon thread that parses a document."""

    def __init__(self, document: Document) -> None:
        self.parsed: futures.Future[Parsed] = futures.Future()
        self.parsed.set_running_or_notify_cancel()
        self._clock: tuple[int, float] | None = None
        threading.Thread(target=self._parse, args=(document,), name="parser", daemon=True).start()

    def _parse(self, document: Document) -> None:
        # macOS has no such clock
        own = hasattr(time, "pthread_getcpuclockid")
        clock = time.pthread_getcpuclockid(threading.get_ident()) if own else time.CLOCK_MONOTONIC
        self._clock = clock, time.clock_gettime(clock)
        try:
            self.parsed.set_result(document.parsed())
        except Exception as error:
            self.parsed.set_exception(UnreadableDocument(f"{type(error).__name__}: {error}"[:500]))

    def left(self) -> float:
        """Returns the seconds of processor time that are left; 0 if it is done."""
        if self.parsed.done():
            return 0.0
        if self._clock is None:
            return SECONDS
        clock, start = self._clock
        try:
            return start + SECONDS - time.clock_gettime(clock)
        except OSError:  # the thread has ended
            return 0.0

    def result(self) -> Parsed:
        """Waits for the tree; raises UnreadableDocument, and ResourcesExhausted if it takes too long."""
        while (seconds := self.left()) > 0:
            futures.wait([self.parsed], seconds)
        if not self.parsed.done():
            raise ResourcesExhausted(_LATE)
        return self.parsed.result()
