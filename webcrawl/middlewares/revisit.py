"""Makes conditional requests, so that unchanged pages are neither transferred nor processed again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Collection
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.http import Headers, Response

from webcrawl.config import read
from webcrawl.crawler.access import is_robots, tasks_of
from webcrawl.crawler.fetch import fetch_of
from webcrawl.crawler.known import UNCHANGED, Known
from webcrawl.crawler.responses import make_response
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.body import Body
from webcrawl.errors import StoreError
from webcrawl.policies.change_signals import ETAG, LAST_MODIFIED, SignalCounts
from webcrawl.stores.archive import Archive, open_archive
from webcrawl.stores.bodies import Bodies
from webcrawl.stores.group_commit import Batches
from webcrawl.stores.warc.reading import StoredRecord
from webcrawl.urls.canonical import split, without_fragment

if TYPE_CHECKING:
    from webcrawl.stores.metadata import Metadata

logger = logging.getLogger(__name__)

_ASKED_WHOLE = 16
"""With RECRAWL, each so many fetches of a page are made without validators: a 304 never shows that a host lies."""


class RevisitMiddleware(SessionComponent):
    """Sends the stored validators of URLs that have a recrawl date, and of all URLs with REVISIT.

    With RECRAWL, validators that have missed changes of their host's pages are not sent.

    A crawl that fetched a page before knows its links. A new crawl with REVISIT does not: spider and pipelines read
    the page from the archive, so the request is conditional only if the archive has the page. Without REVISIT, a first
    fetch needs no database.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._always = read(crawler.settings, "REVISIT")
        self._unconditional: set[str] = set()
        """The URLs whose stored responses could not be read."""
        self._metadata: Metadata | None = None
        self._archive: Archive | None = None
        self._rows: Batches[str, Known | None] = Batches(self._look)
        crawler.signals.connect(self._close, signals.spider_closed)

    def process_request(self, request: Request) -> Awaitable[None] | None:
        leased = tasks_of(self._crawler).leased(request)
        if leased is None or not (leased.dated or self._always):
            return None
        if request.method != "GET" or is_robots(request) or request.url in self._unconditional:
            return None
        if "If-None-Match" in request.headers or "If-Modified-Since" in request.headers:
            return None
        return self._ask(request, leased.dated)

    async def _ask(self, request: Request, dated: bool) -> None:
        try:
            known = await self._rows.put(without_fragment(request.url))
        except StoreError as error:
            # an unconditional request works too; the metadata pipeline reports the unavailable database
            logger.info("%s is fetched unconditionally: %s", request.url, error)
            return
        if known is not None and (dated or known.keeps_links):
            _make_conditional(request, known)

    def process_response(
        self, request: Request, response: Response
    ) -> Response | Awaitable[Response | Request]:
        if response.status != UNCHANGED or (known := fetch_of(request).known) is None:
            return response
        return self._unchanged(request, response, known)

    async def _unchanged(self, request: Request, response: Response, known: Known) -> Response | Request:
        tasks = tasks_of(self._crawler)
        leased = tasks.leased(request)
        if known.body_location is not None and known.has_links and not (leased and leased.dated):
            try:
                record, body = await self._rows.run(lambda: self._read(known))
            except (StoreError, EOFError, OSError, ValueError) as error:
                logger.warning(
                    "%s is fetched again, because its stored response cannot be read: %s", request.url, error
                )
                self._unconditional.add(request.url)
                tasks.retry(request, 0.0, f"its stored response cannot be read: {error}")
                return request
            response.request = request
            _remember_stored(response, record, body)
        tasks.count("unchanged")
        return response

    def _look(self, urls: list[str]) -> list[Known | None | Exception]:
        if self._metadata is None:
            from webcrawl.stores.metadata import Metadata  # SQLAlchemy is slow to import

            self._metadata = Metadata(self._session.stores.metadata)
        rows = self._metadata.get_many(urls)
        if self._session.revisit_dates is not None:
            self._leave_out_lies(rows.values())
        copied = {row["duplicate_of"] for row in rows.values() if row["duplicate_kind"] == "exact"}
        firsts = self._metadata.get_many([url for url in copied if url]) if copied else {}
        limit = self._session.sizes.of
        return [
            Known.of_row(row, firsts.get, limit(row["mime_type"] or "")) if (row := rows.get(url)) else None
            for url in urls
        ]

    def _leave_out_lies(self, rows: Collection[dict[str, Any]]) -> None:
        """Removes the validators from rows that do not tell whether the page has changed, or are to be checked."""
        assert self._metadata is not None
        hosts = {row["url"]: split(row["url"])[0] for row in rows}
        counts = self._metadata.signal_counts(hosts.values())
        for row in rows:
            of_host = counts.get(hosts[row["url"]], {})
            for name, kind in (("etag", ETAG), ("last_modified", LAST_MODIFIED)):
                is_valid = of_host.get(kind, SignalCounts()).is_valid
                if not is_valid or row["fetches"] % _ASKED_WHOLE == _ASKED_WHOLE - 1:
                    row[name] = None

    def _read(self, known: Known) -> tuple[StoredRecord, Body]:
        assert known.body_location is not None
        if self._archive is None:
            self._archive = open_archive(self._session.stores)
        bodies = Bodies(self._archive, self._session.fetch)
        record, body = bodies.read(known.body_location)
        if known.head not in (None, known.body_location):
            # a copy has the body of another page, but its own header
            head = bodies.chunks(known.head)[0]
            record = head if head.http_head else record
        return record, body

    async def _close(self) -> None:
        await self._rows.close(self._close_stores)

    def _close_stores(self) -> None:
        if self._metadata is not None:
            self._metadata.close()
        if self._archive is not None:
            self._archive.close()


def _make_conditional(request: Request, known: Known) -> None:
    """Adds the validators of the stored answer to a request."""
    if known.etag:
        request.headers["If-None-Match"] = known.etag.encode("latin-1", "replace")
    if known.last_modified:
        request.headers["If-Modified-Since"] = known.last_modified.encode("latin-1", "replace")
    fetch_of(request).known = known


def _remember_stored(response: Response, record: StoredRecord, body: Body) -> None:
    """Keeps the archived response that `response` confirms, for spider and pipelines."""
    lines = (line.partition(b":") for line in record.http_head.split(b"\r\n")[1:])
    headers = Headers([(name.strip(), value.strip()) for name, colon, value in lines if colon])
    # `body` is already decoded
    headers.pop("Content-Encoding", None)
    if not record.http_head:
        headers["Content-Type"] = record.headers.get("Content-Type", "")
    fetch_of(response).archived = make_response(body, response.url, headers, request=response.request)
