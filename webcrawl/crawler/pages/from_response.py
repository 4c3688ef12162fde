"""Makes the page and the document of a Scrapy response."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from webcrawl.crawler.fetch import Fetch, fetch_of
from webcrawl.crawler.known import UNCHANGED, Known
from webcrawl.crawler.responses import (
    BAD_CODING,
    LOST,
    REMARKS,
    TIMED_OUT,
    TRUNCATED,
    UNFINISHED,
    body_of,
    content_type,
    header,
    says_nosniff,
    truncation_of,
)
from webcrawl.crawler.scheduling.requests import (
    FETCH_CLASS,
    OFFSITE,
    QUEUED_AT,
    SITEMAP,
    STORED_REQUEST,
    referrer_of,
)
from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.html.outline import Outline
from webcrawl.documents.mime.facts import language
from webcrawl.documents.mime.sniff import sniff
from webcrawl.documents.page import HEAD_ONLY, Page, PendingLinks
from webcrawl.errors import brief
from webcrawl.urls.canonical import normalize, split, without_fragment

_LONGEST_VALIDATOR = 1024

_FLAWS = {
    LOST: "the connection broke before the end of the body",
    TIMED_OUT: "the time was up before the end of the body",
    TRUNCATED: "the body was cut off at the limit of its type",
    UNFINISHED: "the body ends before its Content-Encoding does",
    BAD_CODING: "the body cannot be decoded as its Content-Encoding says",
}


def document_of(response: Response) -> Document:
    """Returns the document of a response, always the same one, so that it is parsed once."""
    return _document(fetch_of(response), response)


def _document(fetch: Fetch, response: Response) -> Document:
    if fetch.document is None:
        body, headers = body_of(response), response.headers
        url = without_fragment(response.url)
        media = sniff(content_type(headers), body, url, nosniff=says_nosniff(headers))
        fetch.document = Document(body, media.mime_type, media.charset, url)
    return fetch.document


def outline_of(response: Response) -> Outline | None:
    """Returns the outline that the HTML process made of a response, or None."""
    return fetch_of(response).outline


def keep_outline(response: Response, outline: Outline) -> None:
    """Sets what `outline_of` returns, so that the response is not parsed in this process."""
    fetch_of(response).outline = outline


def forget_tree(response: Response) -> None:
    """Frees the tree of a response's document; see `Document.forget`."""
    if (document := fetch_of(response).document) is not None:
        document.forget()


def pending_links_of(response: Response) -> PendingLinks:
    """Returns the `PendingLinks` that hands over the links in the document of a response."""
    return _pending_links(fetch_of(response), response)


def _pending_links(fetch: Fetch, response: Response) -> PendingLinks:
    if fetch.pending_links is None:
        fetch.pending_links = PendingLinks(hops_of(response))
    return fetch.pending_links


def hops_of(response: Response) -> int:
    """Returns how many links in a row led to a response outside the scope; 0 if it is within."""
    hops = response.meta.get(OFFSITE, 0) if response.request else 0
    return hops if isinstance(hops, int) else 0


def page_url(response: Response) -> str:
    """Returns the URL of the page of a response: the requested one, without fragment."""
    return without_fragment(response.request.url if response.request else response.url)


def page_of(response: Response) -> Page:
    """Returns the page of a response, for the pipelines."""
    fetch, sent = fetch_of(response), None if response.request is None else fetch_of(response.request)
    fetch.is_page = True
    document, exchange = _document(fetch, response), sent.exchange if sent else None
    meta, headers = response.meta, response.headers
    page = Page(
        url=page_url(response),
        final_url=without_fragment(response.url),
        host=split(normalize(response.url))[0],
        status=response.status,
        fetched_at=exchange.fetched_at if exchange else datetime.now(UTC),
        depth=meta.get("depth", 0),
        referrer=referrer_of(meta),
        attempts=meta.get("retry_times", 0) + 1,
        mime_type=document.mime_type,
        charset=document.charset,
        length=len(document),
        digest=(exchange.payload if exchange else body_of(response)).digest,
        etag=_short(header(headers, b"Etag")),
        last_modified=_short(header(headers, b"Last-Modified")),
        error=next((_FLAWS[flag] for flag in response.flags if flag in _FLAWS), None),
        latency=_latency(meta),
        redirects=meta.get("redirect_urls"),
        truncated=(exchange.truncated if exchange else None) or truncation_of(response.flags),
        processing_error=exchange.problem if exchange else None,
    )
    page.document, page.archived.exchange, page.reading.outline = document, exchange, fetch.outline
    if sent is not None:
        sent.mime_type = document.mime_type
    if response.flags:
        page.archived.remarks = tuple(flag for flag in response.flags if flag in REMARKS)
        if HEAD_ONLY in page.archived.remarks:
            # there is no payload, so it is no copy of another page either
            page.length = page.digest = None
            page.reading.was_read = True
    page.reading.is_sitemap, page.queued_at = bool(meta.get(SITEMAP)), queued_at(response.request)
    page.recrawl_request, page.fetch_class = meta.get(STORED_REQUEST), meta.get(FETCH_CLASS)
    cache_control, expires, date = (header(headers, name) for name in (b"Cache-Control", b"Expires", b"Date"))
    page.caching = _short(cache_control), _short(expires), _short(date)
    page.reading.content_language = _single_language(header(headers, b"Content-Language"))
    if response.status == UNCHANGED and sent and sent.known is not None:
        _fill_from_stored(page, fetch.archived, sent.known)
    if page.archived.unchanged or not is_html(document.mime_type):
        page.links.pending = _pending_links(fetch, response)
    return page


def _latency(meta: dict[str, Any]) -> float | None:
    """Returns the seconds to the first byte, rounded to microseconds."""
    latency = meta.get("download_latency")
    return None if latency is None else round(latency, 6)


def _fill_from_stored(page: Page, stored: Response | None, known: Known) -> None:
    """Fills the page of a 304 with the stored data of the response that it confirms."""
    page.digest, page.archived.stored_links = known.digest, known.links
    page.etag, page.last_modified = known.validators(page.etag, page.last_modified)
    first, page.archived.duplicate_fetched_at = known.original
    page.duplicate_of = first if first != page.url else None
    if stored and not is_html((document := document_of(stored)).mime_type):
        page.archived.unchanged = document
        page.mime_type = document.mime_type


def answer_of(response: Response) -> Response:
    """Returns the archived response that a 304 confirms, or the response itself."""
    return fetch_of(response).archived or response


def failed_request(failure: Failure) -> Request:
    """Returns the request of a failure that Scrapy passes to an errback, where the attribute has no type."""
    return cast("Request", vars(failure)["request"])


def failed_page(request: Request, error: BaseException | None) -> Page:
    """Returns the page of a URL without a response, with the error."""
    page = Page(
        url=without_fragment(request.url),
        host=split(normalize(request.url))[0],
        fetched_at=datetime.now(UTC),
        depth=request.meta.get("depth", 0),
        referrer=referrer_of(request.meta),
        attempts=request.meta.get("retry_times", 0) + 1,
        error=brief(f"{type(error).__name__}: {error}"),
    )
    page.queued_at, page.recrawl_request = queued_at(request), request.meta.get(STORED_REQUEST)
    page.fetch_class = request.meta.get(FETCH_CLASS)
    return page


def queued_at(request: Request | None) -> datetime | None:
    """Returns when the URL of a request was first queued; None if that is not known."""
    queued = request.meta.get(QUEUED_AT) if request else None
    return datetime.fromtimestamp(queued, UTC) if isinstance(queued, float) else None


def _single_language(value: bytes | None) -> str | None:
    """Returns the language of the header Content-Language, unless it names several."""
    return None if value is None or b"," in value else language(_text(value))


def _short(value: bytes | None) -> str | None:
    """Returns the value of a header that every page keeps, such as ETag; None if it is too long for that."""
    return None if value is None or len(value) > _LONGEST_VALIDATOR else _text(value)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
