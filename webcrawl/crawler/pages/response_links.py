"""The links, frames and robots directives of a Scrapy response, and whether it opts out of training."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from scrapy.http import Headers, Response

from webcrawl.crawler.pages.from_response import answer_of, document_of, outline_of
from webcrawl.crawler.responses import header, header_values
from webcrawl.documents.html.facts import is_html, robots_metas
from webcrawl.documents.html.link_rows import pack_rows, plain_rows
from webcrawl.documents.html.links import HeaderLink, PageLinks, frame_links, header_links, refresh_address
from webcrawl.documents.html.outline import link_rows_of as rows_of, links_of
from webcrawl.documents.link_elements import Attributes
from webcrawl.errors import InvalidURL
from webcrawl.hosts.robots_directives import Directives, directives
from webcrawl.hosts.usage_preferences import refuses
from webcrawl.urls.canonical import resolve, resolve_location, without_fragment

NO_LINKS = PageLinks(links=[], nofollow=0, canonical=None, base="", malformed=0)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_IN_DOCUMENT_ONLY = replace(NO_LINKS, with_document_links=True)
_RESERVATION = "tdm-reservation"


def page_directives(response: Response, user_agent: str) -> Directives:
    """Returns the directives of X-Robots-Tag headers and <meta name="robots"> for `user_agent`."""
    return directives_of(response.headers, robots_metas(metas_of(response)), user_agent)


def directives_of(headers: Headers, metas: Sequence[tuple[str, str]], user_agent: str) -> Directives:
    """Returns the directives of headers and of the (name, content) pairs of <meta> for `user_agent`."""
    tags = [value.decode("latin-1") for value in header_values(headers, b"X-Robots-Tag")]
    return directives(tags, metas, user_agent) if tags or metas else Directives()


def followed_links(
    response: Response, *, obey: str | None, texts: bool = False, text_links: bool = False
) -> PageLinks:
    """Returns the links of HTML and of Link headers; a pipeline finds the links in documents of other types later.

    Returns no links if the page says nofollow to the user agent `obey`; None ignores nofollow. `texts`: the links have
    their texts. `text_links`: the addresses in the text of HTML are links too.
    """
    response = answer_of(response)
    if not 200 <= response.status < 300:
        return NO_LINKS
    if obey is not None and page_directives(response, obey).nofollow:
        return NO_LINKS
    document = document_of(response)
    if not is_html(document.mime_type):
        links = _IN_DOCUMENT_ONLY
    elif outline := outline_of(response):
        links = outline.links
    else:
        links = links_of(document, texts=texts, text_links=text_links)
    return _with_headers(links, response, document.url)


def link_rows_of(response: Response, *, text_links: bool) -> tuple[bytes, ...]:
    """Returns the packed rows of a redirect, or of all links of HTML and Link headers, followed or not."""
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
    if in_headers := _with_headers(NO_LINKS, response, document.url).links:
        packed.append(pack_rows(plain_rows(list(in_headers), "header")))
    return tuple(packed)


def _redirect_target(response: Response) -> str | None:
    """Returns the target of a redirect; None if it cannot be crawled."""
    with suppress(InvalidURL):
        if location := header(response.headers, b"Location"):
            return resolve_location(location, response.url)
    return None


def frames_of(response: Response) -> list[str]:
    """Returns the URLs of the frames of a frameset; see `frame_links`."""
    if outline := outline_of(response):
        return outline.frames
    document = document_of(response)
    return frame_links(document) if is_html(document.mime_type) else []


def metas_of(response: Response) -> list[Attributes]:
    """Returns the attributes of the <meta> elements of HTML."""
    if outline := outline_of(response):
        return outline.metas
    document = document_of(response)
    return document.metas if is_html(document.mime_type) else []


def _with_headers(links: PageLinks, response: Response, url: str) -> PageLinks:
    """Adds the links in the headers Link (RFC 8288) and Refresh, which browsers read like a meta refresh."""
    values = header_values(response.headers, b"Link"), header_values(response.headers, b"Refresh")
    if not any(values):
        return links
    targets, canonical = dict.fromkeys(links.links), links.canonical
    in_link, in_refresh = ([value.decode("latin-1") for value in many] for many in values)
    refreshes = (
        HeaderLink(without_fragment(refresh_address(value)), canonical=False) for value in in_refresh[:1]
    )
    for link in chain(header_links(in_link), refreshes):
        with suppress(InvalidURL):
            if link.address and (target := resolve(link.address, url)):
                targets[target] = None
                if link.canonical:
                    canonical = canonical or target
    return replace(links, links=list(targets), canonical=canonical)


def opts_out(response: Response, user_agent: str) -> bool:
    """Whether a response says `noai`, `tdm-reservation: 1` or `Content-Usage: train-ai=n`.

    Of an image, `noimageai` is enough.
    """
    directives = page_directives(response, user_agent)
    if directives.noai or (directives.noimageai and _is_image(response)):
        return True
    usage = ",".join(value.decode("latin-1") for value in header_values(response.headers, b"Content-Usage"))
    return refuses(usage) is True or _reserves(response)


def _is_image(response: Response) -> bool:
    return (document_of(response).mime_type or "").startswith("image/")


def _reserves(response: Response) -> bool:
    """Whether the TDM Reservation Protocol reserves the rights; what HTML says takes precedence over a header."""
    for attributes in metas_of(response):
        if (attributes.get("name") or "").strip().lower() == _RESERVATION:
            return (attributes.get("content") or "").strip() == "1"
    value = header(response.headers, b"Tdm-Reservation")
    return value is not None and value.strip() == b"1"
