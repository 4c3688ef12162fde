"""Large HTML is tried by a reader before anybody parses it here."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.access import is_robots
from webcrawl.document import Document
from webcrawl.errors import UnreadableDocument
from webcrawl.fetched import answer_of, document_of
from webcrawl.mime.html import is_html
from webcrawl.mime.trial import BYTES
from webcrawl.responses import length_of
from webcrawl.session import Session


class TrialMiddleware:
    """See `webcrawl.mime.trial`; a document that does not stand its trial is `refused`."""

    def __init__(self, session: Session) -> None:
        self._readers = session.readers

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(Session.of(crawler))

    def process_response(self, request: Request, response: Response) -> Response | Awaitable[Response]:
        answer = answer_of(response)
        if length_of(answer) <= BYTES or is_robots(request):
            return response
        document = document_of(answer)
        return self._try(document, response) if is_html(document.mime_type) else response

    async def _try(self, document: Document, response: Response) -> Response:
        try:
            await self._readers.read("webcrawl.mime.trial:parse", document)
        except UnreadableDocument as error:
            document.refused = str(error)
        return response
