"""Makes the page, the document and the links of a Scrapy response."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure
from w3lib.url import safe_url_string

from webcrawl.crawler.fetch import exchange_of, fetch_of
from webcrawl.crawler.known import Known
from webcrawl.crawler.pages.revisits import known_of, stored_answer
from webcrawl.crawler.responses import (
    BAD_CODING,
    LOST,
    TIMED_OUT,
    TRUNCATED,
    UNFINISHED,
    body_of,
    content_type,
    header,
    header_values,
    says_nosniff,
    truncation_of,
)
from webcrawl.crawler.scheduling.requests import OFFSITE, QUEUED_AT, SITEMAP
from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import is_html, robots_metas
from webcrawl.documents.html.link_rows import pack_rows, plain_rows
from webcrawl.documents.html.links import PageLinks, frame_links, header_links
from webcrawl.documents.html.outline import Outline, link_rows_of as rows_of, links_of
from webcrawl.documents.link_elements import Attributes
from webcrawl.documents.mime.facts import language
from webcrawl.documents.mime.sniff import sniff
from webcrawl.errors import InvalidURL, brief
from webcrawl.hosts.robots_directives import Directives, directives
from webcrawl.page import Page, PendingLinks
from webcrawl.urls.canonical import normalize, resolve, split, without_fragment

NO_LINKS = PageLinks(links=[], nofollow=0, canonical=None, base="", malformed=0)
_LONGEST_VALIDATOR = 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FOUND_ONLY = replace(NO_LINKS, with_document_links=True)

_FLAWS = {
    LOST: "the connection broke before the end of the body",
    TIMED_OUT: "the time was up before the end of the body",
    TRUNCATED: "the body was cut off at the limit of its type",
    UNFINISHED: "the body ends before its Content-Encoding does",
    BAD_CODING: "the body cannot be decoded as its Content-Encoding says",
}


def document_of(response: Response) -> Document:
    """Returns the document of a response, always the same one, so that it is parsed once."""
    fetch = fetch_of(response)
    if fetch.document is None:
        body, headers = body_of(response), response.headers
        url = without_fragment(response.url)
        media = sniff(content_type(headers), body, url, nosniff=says_nosniff(headers))
        fetch.document = Document(body, media.mime_type, media.charset, url)
    return fetch.document


def outline_of(response: Response) -> Outline | None:
    """Returns what the HTML process made of a response, or None."""
    return fetch_of(response).outline


def keep_outline(response: Response, outline: Outline) -> None:
    """Sets what `outline_of` returns, so that the response is not parsed in this process."""
    fetch_of(response).outline = outline


def forget_tree(response: Response) -> None:
    """Frees what was parsed from the body of a response; see `Document.forget`."""
    if (document := fetch_of(response).document) is not None:
        document.forget()


def pending_links_of(response: Response) -> PendingLinks:
    """Returns where the links in the document of a response are handed over."""
    fetch = fetch_of(response)
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
    """Returns the page of a response, for the pipelines to process."""
    fetch_of(response).is_page = True
    document, exchange = document_of(response), exchange_of(response.request)
    meta, headers = response.meta, response.headers
    page = Page(
        url=page_url(response),
        final_url=without_fragment(response.url),
        host=split(normalize(response.url))[0],
        status=response.status,
        fetched_at=exchange.fetched_at if exchange else datetime.now(UTC),
        depth=meta.get("depth", 0),
        referrer=meta.get("referrer"),
        attempts=meta.get("retry_times", 0) + 1,
        mime_type=document.mime_type,
        charset=document.charset,
        length=len(document),
        digest=(exchange.payload if exchange else body_of(response)).digest,
        etag=_validator(header(headers, b"Etag")),
        last_modified=_validator(header(headers, b"Last-Modified")),
        error=next((_FLAWS[flag] for flag in response.flags if flag in _FLAWS), None),
        latency=_latency(meta),
        redirects=meta.get("redirect_urls"),
        truncated=(exchange.truncated if exchange else None) or truncation_of(response.flags),
        processing_error=exchange.problem if exchange else None,
    )
    page.document, page.archived.exchange, page.reading.outline = document, exchange, outline_of(response)
    page.reading.is_sitemap, page.queued_at = bool(meta.get(SITEMAP)), queued_at(response.request)
    page.reading.content_language = _single_language(header(headers, b"Content-Language"))
    if (known := known_of(response)) is not None:
        _fill_from_stored(page, response, known)
    if page.archived.unchanged or not is_html(document.mime_type):
        page.links.pending = pending_links_of(response)
    return page


def _latency(meta: dict[str, Any]) -> float | None:
    """Returns the seconds to the first byte without the noise of a difference of two clock readings."""
    latency = meta.get("download_latency")
    return None if latency is None else round(latency, 6)


def _fill_from_stored(page: Page, response: Response, known: Known) -> None:
    """Fills the page of a 304 with what is stored of the response that it confirms."""
    page.digest = known.digest
    page.etag, page.last_modified = known.validators(page.etag, page.last_modified)
    first, page.archived.duplicate_fetched_at = known.original
    page.duplicate_of = first if first != page.url else None
    if (stored := stored_answer(response)) and not is_html(document_of(stored).mime_type):
        page.archived.unchanged = document_of(stored)
        page.mime_type = page.archived.unchanged.mime_type


def answer_of(response: Response) -> Response:
    """Returns the archived response that a 304 confirms, or the response itself."""
    return stored_answer(response) or response


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
        referrer=request.meta.get("referrer"),
        attempts=request.meta.get("retry_times", 0) + 1,
        error=brief(f"{type(error).__name__}: {error}"),
    )
    page.queued_at = queued_at(request)
    return page


def queued_at(request: Request | None) -> datetime | None:
    """Returns when the URL of a request was first queued; None if that is not known."""
    queued = request.meta.get(QUEUED_AT) if request else None
    return datetime.fromtimestamp(queued, UTC) if isinstance(queued, float) else None


def page_directives(response: Response, user_agent: str) -> Directives:
    """Returns the directives of X-Robots-Tag headers and <meta name="robots"> for `user_agent`."""
    tags = [value.decode("latin-1") for value in header_values(response.headers, b"X-Robots-Tag")]
    metas = robots_metas(_metas(response))
    return directives(tags, metas, user_agent) if tags or metas else Directives()


def followed_links(
    response: Response, *, obey: str | None, texts: bool = False, text_links: bool = False
) -> PageLinks:
    """Returns the links of HTML and of Link headers; those in documents of other types are found by a pipeline later.

    There are none if the page says nofollow to the user agent `obey`; None ignores such directives. `texts`: the links
    have their texts. `text_links`: the addresses in the text of HTML are links too.
    """
    response = answer_of(response)
    if not 200 <= response.status < 300:
        return NO_LINKS
    if obey is not None and page_directives(response, obey).nofollow:
        return NO_LINKS
    document = document_of(response)
    if not is_html(document.mime_type):
        links = _FOUND_ONLY
    elif outline := outline_of(response):
        links = outline.links
    else:
        links = links_of(document, texts=texts, text_links=text_links)
    if headers := header_values(response.headers, b"Link"):
        return _with_headers(links, [value.decode("latin-1") for value in headers], document.url)
    return links


def link_rows_of(response: Response, *, text_links: bool) -> tuple[bytes, ...]:
    """Returns the rows of a redirect, or of the links of HTML and Link headers, packed; also of those not followed."""
    response = answer_of(response)
    if response.status in _REDIRECTS:
        target = _redirect_target(response)
        return () if target is None else (pack_rows(plain_rows([target], "redirect")),)
    if not 200 <= response.status < 300:
        return ()
    document, packed = document_of(response), []
    if is_html(document.mime_type):
        outline = outline_of(response)
        rows = outline.link_rows if outline else rows_of(document, text_links=text_links)
        packed += [rows] if rows else []
    if headers := header_values(response.headers, b"Link"):
        links = _with_headers(NO_LINKS, [value.decode("latin-1") for value in headers], document.url)
        packed.append(pack_rows(plain_rows(list(links.links), "header")))
    return tuple(packed)


def _redirect_target(response: Response) -> str | None:
    """Returns the target of a redirect as Scrapy's middleware reads it; None if it cannot be crawled."""
    with suppress(ValueError):
        if location := header(response.headers, b"Location"):
            return resolve(safe_url_string(location), response.url)
    return None


def frames_of(response: Response) -> list[str]:
    """Returns the URLs of the frames of a frameset; see `frame_links`."""
    if outline := outline_of(response):
        return outline.frames
    document = document_of(response)
    return frame_links(document.elements, document.url) if is_html(document.mime_type) else []


def _metas(response: Response) -> list[Attributes]:
    if outline := outline_of(response):
        return outline.metas
    document = document_of(response)
    return document.metas if is_html(document.mime_type) else []


def _with_headers(links: PageLinks, headers: list[str], url: str) -> PageLinks:
    targets, canonical = dict.fromkeys(links.links), links.canonical
    for link in header_links(headers):
        with suppress(InvalidURL):
            if target := resolve(link.address, url):
                targets[target] = None
                if link.canonical:
                    canonical = canonical or target
    return replace(links, links=list(targets), canonical=canonical)


def _single_language(value: bytes | None) -> str | None:
    """Returns the language of the header Content-Language, unless it names several."""
    return None if value is None or b"," in value else language(_text(value))


def _validator(value: bytes | None) -> str | None:
    """Returns an ETag or a date; None if it is too long to be stored with every page and sent back."""
    return None if value is None or len(value) > _LONGEST_VALIDATOR else _text(value)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
