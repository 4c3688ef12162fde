"""Whether a response says that its page is not to be used by artificial intelligence."""

from __future__ import annotations

from scrapy.http import Response

from webcrawl.crawler.pages.from_response import document_of
from webcrawl.crawler.pages.response_links import metas_of, page_directives
from webcrawl.crawler.responses import header, header_values
from webcrawl.hosts.usage_preferences import refuses

_RESERVATION = "tdm-reservation"


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
