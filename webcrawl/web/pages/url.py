"""The page of a URL: why it is or is not fetched, its state, its fetches, its text, and links to it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from webcrawl.crawler.pages.archived_page import ArchivedPage
from webcrawl.crawler.url_report import ReportedLink, url_report
from webcrawl.errors import InvalidURL, LibraryMissing, NoSuchPage, StoreError, printable
from webcrawl.frontier.url_state import URLState, url_state
from webcrawl.opened import OpenedCrawl
from webcrawl.stores.clusters import DuplicateCluster, clusters
from webcrawl.stores.locations import Row
from webcrawl.stores.metadata import Metadata, StoredFetch
from webcrawl.urls.canonical import as_requested, resolve_location, split
from webcrawl.urls.seeds import seed_url
from webcrawl.web.crawls import in_metadata
from webcrawl.web.page import DashboardPage, View
from webcrawl.web.url_facts import conclude, verdicts, visits

page = DashboardPage("url", "URL")

_MOST_LINKS = 200
_MOST_TEXT = 200_000


@dataclass(frozen=True, slots=True)
class _Stored:
    """The stored data of a URL. `first`: the page of which it is a copy; `copies`: copies of it on the same host."""

    row: Row
    history: list[StoredFetch]
    first: Row | None
    copies: DuplicateCluster | None
    chain: list[str]


@page.get()
async def url_page(view: View) -> Response:
    query = view.query
    if not query.get("url", "").strip():
        return view.render("url.html", url="", asked=ReportedLink(""))
    asked = ReportedLink(
        seed_url(query["url"].strip()), query.get("from", "").strip(), text=query.get("text", "")
    )
    url, connection = asked.url, view.connection
    host, path = split(url)
    report = await url_report(view.opened, view.settings, asked, exists=True)
    state = await url_state(connection.frontier, host, path)
    stored = await in_metadata(view.opened, lambda metadata: _stored(metadata, view.opened, url))
    host_state = await connection.frontier.host(host)
    row = stored.row if stored else None
    return view.render(
        "url.html",
        url=url,
        asked=asked,
        host=host,
        conclusion=conclude(report, state, row, host_state, await connection.crawl.paused()),
        verdicts=list(verdicts(report)),
        report=report,
        state=state,
        engine_facts=_engine_facts(state),
        stored=stored,
        visits=visits(stored.history) if stored else [],
        row=row,
    )


@page.get("text")
async def text(view: View) -> Response:
    """Returns the main part of the text."""
    text_of_page, problem = "", ""
    try:
        with await asyncio.to_thread(view.opened.metadata) as metadata:
            row = await asyncio.to_thread(known_row, metadata, view.opened, asked_url(view))
            text_of_page = (await ArchivedPage(view.opened, metadata, row).text(view.settings)).text
    except StoreError as error:
        problem = str(error)
    lines = [printable(line) for line in text_of_page[:_MOST_TEXT].split("\n")]
    return view.render(
        "url_text.html", url=asked_url(view), lines=lines, problem=problem, cut=len(text_of_page) > _MOST_TEXT
    )


@page.get("links")
async def links(view: View) -> Response:
    """Returns the links to the URL, if LINKS stored them."""
    url, problem, links = asked_url(view), "", _Links()
    try:
        links = await asyncio.to_thread(_links_to, view.opened, url)
    except (StoreError, LibraryMissing) as error:
        problem = str(error)
    return view.render("url_links.html", url=url, links=links, most=_MOST_LINKS, problem=problem)


@dataclass(frozen=True, slots=True)
class _Links:
    """The first links to a URL, and the total. `unfinished`: whether crawls are writing further links."""

    rows: list[dict[str, Any]] | None = None
    total: int = 0
    unfinished: int = 0


def _links_to(opened: OpenedCrawl, url: str) -> _Links:
    # imported late: pyarrow may not be installed
    from webcrawl.links.questions import links_to
    from webcrawl.links.sources import link_files_if_any

    files = link_files_if_any(opened.stores)
    if files is None:
        return _Links()
    table = links_to(files.openers, sorted({url, as_requested(url), opened.canonicalizer.canonical(url)}))
    return _Links(table.slice(0, _MOST_LINKS).to_pylist(), len(table), files.unfinished)


def asked_url(view: View) -> str:
    """Returns the URL in the address of a page; raises NoSuchPage."""
    if not view.query.get("url"):
        raise NoSuchPage("the address names no URL: ?url=https://example.org/")
    return seed_url(view.query["url"])


def known_row(metadata: Metadata, opened: OpenedCrawl, url: str) -> Row:
    """Returns the row of a URL; raises StoreError."""
    row = _row(metadata, opened, url)
    if row is None:
        raise StoreError(f"nothing is stored about {url}")
    return row


def _row(metadata: Metadata, opened: OpenedCrawl, url: str) -> Row | None:
    return metadata.get(url) or metadata.get(opened.canonicalizer.canonical(url))


def _stored(metadata: Metadata, opened: OpenedCrawl, url: str) -> _Stored | None:
    row = _row(metadata, opened, url)
    if row is None:
        return None
    groups = clusters(metadata, host=split(row["url"])[0], first=row["url"]).clusters
    return _Stored(
        row,
        metadata.history(row["url"])[::-1],
        metadata.get(row["duplicate_of"]) if row["duplicate_of"] else None,
        groups[0] if groups else None,
        _chain(opened, metadata, row),
    )


def _chain(opened: OpenedCrawl, metadata: Metadata, row: Row) -> list[str]:
    """Returns the URLs of a chain of redirects in a row: the redirecting URLs, the URL itself, and its target."""
    target = row["final_url"]
    if row["status"] is not None and 300 <= row["status"] < 400:
        with suppress(StoreError, InvalidURL):
            head = ArchivedPage(opened, metadata, row).http_head()
            fields = (line.partition(":") for line in head)
            location = next((value.strip() for name, _, value in fields if name.lower() == "location"), "")
            target = resolve_location(location.encode("latin-1"), row["url"]) or target
    chain = list(dict.fromkeys([*(row["redirects"] or ()), row["url"], target]))
    return chain if len(chain) > 1 else []


def _engine_facts(state: URLState) -> dict[str, Any]:
    """Returns the facts of a URL in the engine, by name."""
    facts = {
        "level": state.level,
        "depth": state.depth,
        "attempts that failed before": state.attempts,
        "worker": state.worker,
        "reason": state.reason,
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}
