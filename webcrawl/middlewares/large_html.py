"""Parses large HTML in a thread before the spider gets the response, if a component reads its tree."""

from __future__ import annotations

from collections.abc import Awaitable

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.crawler.access import is_robots
from webcrawl.crawler.pages.from_response import answer_of, document_of
from webcrawl.crawler.responses import length_of
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.document import Document
from webcrawl.documents.html.timed_parse import BYTES, TimedParser, is_large


class LargeHtmlMiddleware(SessionComponent):
    """Sets `refused` on a document that cannot be parsed in time; see `webcrawl.documents.html.timed_parse`.

    The large body of a redirect is refused too: no user sees it, and hosts that redirect to each other could send many.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._parser = TimedParser(session.readers)

    def process_response(self, request: Request, response: Response) -> Response | Awaitable[Response]:
        answer = answer_of(response)
        if length_of(answer) <= BYTES or is_robots(request):
            return response
        if 300 <= answer.status < 400:
            document = document_of(answer)
            if is_large(document):
                document.refused = f"the body of a redirect is not read beyond {BYTES:,} bytes"
            return response
        if self._session.outlines is not None and not self._session.components.read_tree:
            return response
        document = document_of(answer)
        return self._parsed(document, response) if is_large(document) else response

    async def _parsed(self, document: Document, response: Response) -> Response:
        await self._parser.parse(document)
        return response
