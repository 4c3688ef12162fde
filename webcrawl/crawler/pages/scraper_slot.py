"""The memory limit of Scrapy's scraper, for responses whose body may be in a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scrapy import Request
from scrapy.core.scraper import Slot
from scrapy.http import Response, TextResponse
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from webcrawl.crawler.pages.from_response import document_of
from webcrawl.crawler.responses import SpooledResponse, length_of
from webcrawl.documents.document import Document
from webcrawl.documents.mime.reader_processes import Readers


class ScraperSlot(Slot):
    """Counts the bytes of a response that will be in memory; Scrapy's own slot reads a whole file to learn its length.

    A document in a reader process, or waiting for a process, does not keep pages from being fetched: its body is small
    or in a file, and the processes have limits of their own. `wake` lets a refused engine ask again when a document
    goes to a process; the engine itself asks again only when a response is finished, or after five seconds.
    """

    def __init__(
        self, max_active_size: int, readers: Readers, wake: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(max_active_size)
        self._readers = readers
        self._wake = wake
        self._is_refusing = False
        readers.on_aside = self._go_on
        self._sizes: dict[Document, int] = {}
        self._open: dict[Request, Deferred[None]] = {}
        """The Deferred that tells the engine that the work on a response has ended."""

    def needs_backout(self) -> bool:
        here = self.active_size - self._elsewhere() if super().needs_backout() else 0
        self._is_refusing = here > self.max_active_size
        return self._is_refusing

    def add_response_request(self, result: Response | Failure, request: Request) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        scraped: Deferred[None] = Deferred()
        self._open[request] = done
        scraped.addBoth(self._pass_on, request, done)
        self.queue.append((result, request, scraped))
        size = self._size(result)
        self.active_size += size
        if isinstance(result, Response) and size > self.MIN_RESPONSE_SIZE:
            self._sizes[document_of(result)] = size
        return done

    def finish_response(self, result: Response | Failure, request: Request) -> None:
        self.active.remove(request)
        self.active_size -= self._size(result)
        if self._sizes and isinstance(result, Response):
            self._sizes.pop(document_of(result), None)

    def end(self, request: Request) -> None:
        """Ends the work on a response for the engine, even if its tasks still run."""
        if done := self._open.pop(request, None):
            done.callback(None)

    def _pass_on(self, outcome: Any, request: Request, done: Deferred[None]) -> None:
        """Reports the outcome of a response, unless the work on it was ended before."""
        if self._open.get(request) is done:
            del self._open[request]
            done.callback(outcome)

    def _go_on(self) -> None:
        if self._is_refusing and not self.needs_backout():
            self._wake()

    def _elsewhere(self) -> int:
        """The bytes of `active_size` that belong to documents in reader processes, or waiting for a process."""
        return sum(self._sizes.get(document, 0) for document in self._readers.documents)

    def _size(self, result: Response | Failure) -> int:
        # text is in memory while it is parsed, wherever its body is; a video is not
        is_in_memory = isinstance(result, TextResponse) or not isinstance(result, SpooledResponse)
        size = length_of(result) if isinstance(result, Response) and is_in_memory else 0
        return max(size, self.MIN_RESPONSE_SIZE)
