"""Conditional requests: the validators that are sent, and the archived response that a 304 confirms."""

from __future__ import annotations

from scrapy import Request
from scrapy.http import Headers, Response

from webcrawl.crawler.fetch import fetch_of
from webcrawl.crawler.known import Known
from webcrawl.crawler.responses import make_response
from webcrawl.documents.body import Body
from webcrawl.stores.warc.reading import StoredRecord

UNCHANGED = 304


def make_conditional(request: Request, known: Known) -> None:
    """Adds the validators of the stored answer to a request."""
    if known.etag:
        request.headers["If-None-Match"] = known.etag.encode("latin-1", "replace")
    if known.last_modified:
        request.headers["If-Modified-Since"] = known.last_modified.encode("latin-1", "replace")
    fetch_of(request).known = known


def condition_of(request: Request) -> Known | None:
    """Returns the stored answer from which a conditional request was made, or None."""
    return fetch_of(request).known


def remember_stored(response: Response, record: StoredRecord, body: Body) -> None:
    """Sets the result of `stored_answer`: the archived response that `response` confirms, from its record and body."""
    lines = (line.partition(b":") for line in record.http_head.split(b"\r\n")[1:])
    headers = Headers([(name.strip(), value.strip()) for name, colon, value in lines if colon])
    # `body` is already decoded
    headers.pop("Content-Encoding", None)
    if not record.http_head:
        headers["Content-Type"] = record.headers.get("Content-Type", "")
    fetch_of(response).archived = make_response(body, response.url, headers, request=response.request)


def stored_answer(response: Response) -> Response | None:
    """Returns the archived response that a 304 confirms; None if it was not read."""
    return fetch_of(response).archived
