"""Asks for the head of a page alone, or leaves the page out of the archive, by the rules of DEPTH_OF_COPY."""

from __future__ import annotations

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.config import read
from webcrawl.crawler.access import is_robots, tasks_of
from webcrawl.crawler.fetch import fetch_of
from webcrawl.crawler.render.rules import RuleTable
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.page import HEAD_ONLY, METADATA_ONLY


class CopyDepthMiddleware(SessionComponent):
    """Makes HEAD requests of GET requests, and flags the responses of pages that are not copied in full.

    The last middleware before politeness: for all others, and for the frontier, the request is a GET, so a redirect of
    a HEAD leads to a page with a rule of its own. A request of a spider with another method, or to be rendered by its
    meta, is sent as it is. Requests that are no pages of the frontier are never changed, such as those for robots.txt.
    """

    needs = "DEPTH_OF_COPY"

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._depths: RuleTable[str] = RuleTable("DEPTH_OF_COPY", read(crawler.settings, "DEPTH_OF_COPY"))

    def process_request(self, request: Request) -> None:
        if request.method != "GET" or is_robots(request) or tasks_of(self._crawler).leased(request) is None:
            return
        depth = self._depths.of(request.url, "full")
        if depth == "head" and request.url.startswith("http") and not request.meta.get("playwright"):
            fetch_of(request).copy_depth = HEAD_ONLY
            request.method = "HEAD"
        elif depth != "full":
            fetch_of(request).copy_depth = METADATA_ONLY

    def process_response(self, request: Request, response: Response) -> Response:
        if flag := self._end(request):
            response.flags.append(flag)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        self._end(request)

    def _end(self, request: Request) -> str:
        """Returns the flag of a request, which is a GET again."""
        fetch = fetch_of(request)
        flag, fetch.copy_depth = fetch.copy_depth, ""
        if flag == HEAD_ONLY:
            request.method = "GET"
        return flag
