"""The archived response of a URL: headers, the page with its resources in a frame, and a list of these."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.responses import PlainTextResponse, Response

from webcrawl.crawler.pages.archived_files import ArchivedFiles
from webcrawl.crawler.pages.archived_page import ArchivedPage
from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.values import printable
from webcrawl.errors import StoreError
from webcrawl.results.replay import Replay
from webcrawl.stores.locations import Row
from webcrawl.stores.metadata import Metadata
from webcrawl.web.archived_response import archived_response, first_bytes, replayed_response
from webcrawl.web.followed import LINKS_AT
from webcrawl.web.page import View
from webcrawl.web.pages.url import asked_url, known_row, page as page

T = TypeVar("T")
Read = Callable[[ArchivedPage, Metadata], T]

_ORDER = ("missing", "left out", "shown")


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
        headers = {"X-Frame-Options": "SAMEORIGIN"}
        headers["Content-Security-Policy"] = "sandbox; default-src 'none'; frame-ancestors 'self'"
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
