"""The memory limit of Scrapy's scraper, for responses whose body may be in a file."""

from __future__ import annotations

from scrapy import Request
from scrapy.core.scraper import Slot
from scrapy.http import Response, TextResponse
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from webcrawl.crawler.responses import SpooledResponse, length_of


class ScraperSlot(Slot):
    """Counts the bytes of a response that will be in memory; Scrapy's own reads the whole file to learn its length."""

    def add_response_request(self, result: Response | Failure, request: Request) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self.queue.append((result, request, done))
        self.active_size += self._size(result)
        return done

    def finish_response(self, result: Response | Failure, request: Request) -> None:
        self.active.remove(request)
        self.active_size -= self._size(result)

    def _size(self, result: Response | Failure) -> int:
        # text is in memory while it is parsed, wherever its body is; a video is not
        is_in_memory = isinstance(result, TextResponse) or not isinstance(result, SpooledResponse)
        size = length_of(result) if isinstance(result, Response) and is_in_memory else 0
        return max(size, self.MIN_RESPONSE_SIZE)
