"""Parses HTML in another process before the spider gets the response."""

from __future__ import annotations

from collections.abc import Awaitable

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from webcrawl.crawler.access import host_of, is_robots
from webcrawl.crawler.fetch import exchange_of
from webcrawl.crawler.pages.from_response import answer_of, document_of, keep_outline
from webcrawl.crawler.responses import length_of
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.html.timed_parse import is_large
from webcrawl.errors import InvalidURL, UnreadableDocument
from webcrawl.frontier import RecentCache

LEAST_BYTES = 4_096
"""Smaller pages are not sent if only their links are read: the transfer to the process takes as long as parsing them.

With facts they are sent, because a worker that describes pages has 10 to 20 MB more: NumPy, and trees.
"""
_RECENT_PAYLOADS = 20_000


class HtmlProcessMiddleware(SessionComponent):
    """Requests an outline of each HTML page; see `webcrawl.documents.html.outline_process`.

    A document that kills the process is `refused`. If a component reads the trees of pages, pages are not sent but
    parsed in the worker. Payloads that were seen recently are usually duplicates: their facts are not extracted.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        if session.outlines is None:
            raise NotConfigured
        self._outlines = session.outlines
        self._recent: RecentCache[str] = RecentCache(_RECENT_PAYLOADS)

    def process_response(self, request: Request, response: Response) -> Response | Awaitable[Response]:
        answer = answer_of(response)
        if is_robots(request):  # which says nothing about the pages of its host
            return response
        components = self._session.components
        least = 1 if components.read_facts else LEAST_BYTES
        if length_of(answer) < least or 300 <= answer.status < 400:
            if host := _host_of(request):
                self._outlines.hosts.note(host)
            return response
        if components.read_tree:
            return response
        document = document_of(answer)
        if not is_html(document.mime_type):
            return response
        return self._outlined(request, response, answer, document)

    async def _outlined(
        self, request: Request, response: Response, answer: Response, document: Document
    ) -> Response:
        components, exchange = self._session.components, exchange_of(request)
        is_new = exchange is None or answer.status != 200 or self._recent.add(exchange.payload.digest)
        try:
            # a page may wait for a long time, and needs no connection meanwhile
            with (
                self._session.turns.aside(),
                self._session.turns.unread_page(),
                # a large page does not wait for the process that reads all others
                self._outlines.hosts.reading(_host_of(request), 0 if is_large(document) else len(document)),
            ):
                outline = await self._outlines.read(
                    document,
                    facts=components.read_facts and is_new,
                    simhash=components.read_simhash,
                    texts=components.read_link_texts,
                    extract=self._session.extract(answer.status, document.url) if is_new else "",
                )
        except UnreadableDocument as error:
            document.refused = str(error)
        else:
            if outline is not None:
                keep_outline(answer, outline)
        return response


def _host_of(request: Request) -> str:
    """Returns the host of a request; "" for a local file, which has none."""
    try:
        return host_of(request)
    except InvalidURL:
        return ""
