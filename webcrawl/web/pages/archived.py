"""The archived response of a URL: headers, the page with its resources in a frame, and a list of these.

A body is shown inert: without scripts, forms and external resources.

The page in the frame has an origin of its own, so the browser sends no cookie when one of its links is followed, and
the frame may not lead the page around it anywhere. The link leads to a page without contents that needs no token. The
page around the frame sees that (static/replay.js), and opens the archived page of the URL.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from webcrawl.crawler.pages.archived_page import ArchivedFiles, ArchivedPage
from webcrawl.documents.document import Document
from webcrawl.documents.encodings import label_of
from webcrawl.documents.html.facts import is_html
from webcrawl.errors import StoreError, printable
from webcrawl.results.replay import Replay
from webcrawl.stores.locations import Row
from webcrawl.stores.metadata import Metadata
from webcrawl.web.page import View
from webcrawl.web.pages.url import asked_url, known_row, page as page

T = TypeVar("T")
Read = Callable[[ArchivedPage, Metadata], T]

_ORDER = ("missing", "left out", "shown")
MOST_BYTES = 4_000_000
"""The most bytes of a body that are shown; a longer body is truncated."""
_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline' data:; img-src data:; font-src data:; media-src data:; "
    "frame-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "SAMEORIGIN",
    "X-DNS-Prefetch-Control": "off",
}
_INERT = "default-src 'none'; frame-ancestors 'self'"
_PICTURES = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp", "image/svg+xml"}
)
_CHARSET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,39}")
_FOLLOWED = "/followed"
LINKS_AT = f"{_FOLLOWED}?url="
"""The beginning of the address for a link, before the escaped URL."""


@page.get("archive")
async def archive(view: View) -> Response:
    """Returns a page with a frame for the archived page, and the archived headers."""
    row, head, problem = None, list[str](), ""
    try:
        row, head = await _in_archive(view, lambda archived, _: archived.http_head())
    except StoreError as error:
        problem = str(error)
    return view.render(
        "url_archive.html",
        url=asked_url(view),
        row=row,
        is_page=row is not None and is_html(row["mime_type"]),
        head=[printable(line) for line in head],
        problem=problem,
    )


@page.get("body")
async def body(view: View) -> Response:
    """Returns the archived body alone, for the frame: HTML with what it loads."""

    def shown(archived: ArchivedPage, metadata: Metadata) -> Response:
        row = archived.row
        if is_html(row["mime_type"]):
            return replayed_response(_replay(view, metadata).page(_document(archived)))
        return archived_response(*archived.body(), row["mime_type"] or "", row["charset"])

    try:
        return (await _in_archive(view, shown))[1]
    except StoreError as error:
        headers = {"Content-Security-Policy": f"sandbox; {_INERT}", "X-Frame-Options": "SAMEORIGIN"}
        return PlainTextResponse(str(error), 404, headers)


@page.get("resources")
async def resources(view: View) -> Response:
    """Returns a page that lists what the archived page loads."""

    def listed(archived: ArchivedPage, metadata: Metadata) -> Replay:
        replay = _replay(view, metadata)
        if is_html(archived.row["mime_type"]):
            replay.page(_document(archived))
        return replay

    replay, problem = None, ""
    try:
        _, replay = await _in_archive(view, listed)
    except StoreError as error:
        problem = str(error)
    rows = sorted(replay.resources.values(), key=lambda row: _ORDER.index(row.state)) if replay else []
    return view.render("url_resources.html", url=asked_url(view), rows=rows, problem=problem)


def _document(archived: ArchivedPage) -> Document:
    row = archived.row
    return Document(first_bytes(*archived.body()), row["mime_type"], row["charset"], row["url"])


def _replay(view: View, metadata: Metadata) -> Replay:
    return Replay(ArchivedFiles(view.opened, metadata).find, LINKS_AT)


async def _in_archive(view: View, read: Read[T]) -> tuple[Row, T]:
    """Returns the row of the URL, and the result of `read` for its archived page; raises StoreError."""
    url = asked_url(view)

    def work() -> tuple[Row, T]:
        with view.opened.metadata() as metadata:
            row = known_row(metadata, view.opened, url)
            return row, read(ArchivedPage(view.opened, metadata, row), metadata)

    return await asyncio.to_thread(work)


def first_bytes(chunks: Iterable[bytes], most: float) -> bytes:
    """Returns the first `most` bytes of the chunks, at most MOST_BYTES."""
    limit, body = int(min(most, MOST_BYTES)), b""
    for chunk in chunks:
        body += chunk
        if len(body) >= limit:
            break
    return body[:limit]


def replayed_response(body: bytes) -> Response:
    """Returns an HTML page of `webcrawl.results.replay`, which has in itself what it shows."""
    return Response(body, headers={**_HEADERS, "Content-Type": "text/html; charset=utf-8"})


def archived_response(chunks: Iterable[bytes], most: float, mime_type: str, charset: str | None) -> Response:
    """Returns a body that is no HTML in the form for its type, or as a download if a browser cannot show it inert.

    Reads at most MOST_BYTES of the chunks.
    """
    headers = dict(_HEADERS)
    if mime_type in _PICTURES:
        shown = mime_type
    elif mime_type.startswith("text/") or mime_type in ("application/json", "application/xml"):
        known = label_of(charset) if charset and _CHARSET.fullmatch(charset) else "utf-8"
        shown = f"text/plain; charset={known}"
    else:
        shown, headers["Content-Disposition"] = "application/octet-stream", 'attachment; filename="body"'
    return Response(first_bytes(chunks, most), headers={**headers, "Content-Type": shown})


def followed_route() -> Route:
    """Returns the route of the page to which links in an archived page lead."""
    return Route(_FOLLOWED, _followed)


async def _followed(request: Request) -> Response:
    headers = {"Content-Security-Policy": _INERT, "X-Frame-Options": "SAMEORIGIN"}
    return HTMLResponse(
        '<!doctype html><html lang="en"><title>A link</title><p>A link of an archived page.', headers=headers
    )
