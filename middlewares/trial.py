"""Large HTML is parsed in a thread before anybody asks for its tree here."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.access import is_robots
from webcrawl.document import Document
from webcrawl.fetched import answer_of, document_of
from webcrawl.mime.trial import BYTES, Trial, is_large
from webcrawl.responses import length_of
from webcrawl.session import Session


class TrialMiddleware:
    """See `webcrawl.mime.trial`; a document that does not stand its trial is `refused`."""

    def __init__(self, session: Session) -> None:
        self._trial = Trial(session.readers)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(Session.of(crawler))

    def process_response(self, request: Request, response: Response) -> Response | Awaitable[Response]:
        answer = answer_of(response)
        if length_of(answer) <= BYTES or is_robots(request):
            return response
        document = document_of(answer)
        return self._parsed(document, response) if is_large(document) else response

    async def _parsed(self, document: Document, response: Response) -> Response:
        await self._trial.parse(document)
        return response
