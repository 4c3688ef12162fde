"""The search in the text of stored pages, and how its index is made."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import Response

from webcrawl.errors import ConfigurationError, LibraryMissing, StoreError
from webcrawl.web.making import CommandTask
from webcrawl.web.page import DashboardPage, View, whole

if TYPE_CHECKING:
    from webcrawl.search.searching import Hit, Results

page = DashboardPage("search", "Search")

FILTERS = ("host", "language", "type", "since", "until")
_ROWS = 10
_LAST = 990
"""The most results before those of a page: each page of results finds all results before it too."""


@dataclass(frozen=True)
class _Asked:
    """What is searched for: words, or the URL of a page for pages like it."""

    words: str
    like: str
    start: int
    chosen: Mapping[str, str]
    media: bool
    by_date: bool


@dataclass(frozen=True)
class _Outcome:
    """The outcome of a search. `updated_at`: when the index was last complete, None if it is not."""

    pages: int | None = None
    updated_at: datetime | None = None
    results: Results | None = None
    hits: list[tuple[Hit, list[tuple[str, bool]]]] = field(default_factory=list)
    problem: str = ""
    missing: str = ""
    """Which library is missing; "" if all are there."""


@page.get()
async def search(view: View) -> Response:
    query = view.query
    words, chosen = query.get("words", "").strip(), {name: query.get(name, "").strip() for name in FILTERS}
    start = min(whole(query.get("start", "0"), "start"), _LAST)
    crawl, media = "" if query.get("all") else view.crawl, bool(query.get("media"))
    like, by_date = query.get("like", "").strip(), query.get("sort") == "date"
    asked = _Asked("" if like else words, like, start, {**chosen, "crawl": crawl}, media, by_date)
    outcome = await asyncio.to_thread(_search, _folder(view), asked)
    task = _task(view)
    return view.render(
        "search.html",
        words=asked.words,
        like=like,
        by_date=by_date,
        chosen=chosen,
        start=start,
        last=_LAST,
        rows=_ROWS,
        all_crawls=not crawl,
        media=media,
        outcome=outcome,
        stored=(await view.connection.crawl.totals()).get("stored", 0),
        data_dir=view.opened.stores.data_dir,
        since=view.making.since(task),
        failure=view.making.problem(task),
        state=view.making.state(task),
    )


@page.live("search")
async def parts(view: View) -> Mapping[str, str]:
    return {"@shown": view.making.state(_task(view))}


@page.post("index")
async def index(view: View) -> Response:
    """Makes the index, or brings it up to date, by `scrapy search --update`."""
    view.making.start(_task(view), ["search", "--update"], view.opened.settings)  # type: ignore[arg-type]
    return view.done("The index is being made. This page shows when it is done.")


def _task(view: View) -> CommandTask:
    return CommandTask(view.crawl, "the index")


def _folder(view: View) -> Path:
    return view.opened.stores.data_dir / "index"


def _search(folder: Path, asked: _Asked) -> _Outcome:
    """Searches in the index of a folder; reads at most the first 1,000 results."""
    try:
        # imported late: tantivy may not be installed
        from webcrawl.search.folder import updated_at
        from webcrawl.search.query import asked_filters
        from webcrawl.search.searching import Search

        if not (folder / "index.json").exists():
            return _Outcome()
        opened = Search(folder)
        pages, updated = opened.searcher.num_docs, updated_at(folder)
        if not (asked.words or asked.like):
            return _Outcome(pages, updated)
        chosen = {name: text or None for name, text in asked.chosen.items()}
        text, find = (asked.like, opened.like) if asked.like else (asked.words, opened.find)
        try:
            filters = asked_filters(**chosen, media=asked.media)
            results = find(text, filters, _ROWS, asked.start, by_date=asked.by_date, facets=True)
        except ConfigurationError as error:
            return _Outcome(pages, updated, problem=str(error).removeprefix("--"))
        hits = [(hit, _marked(hit.snippet, hit.marks)) for hit in results.hits]
        return _Outcome(pages, updated, results, hits)
    except LibraryMissing as error:
        return _Outcome(missing=str(error))
    except (StoreError, OSError) as error:
        return _Outcome(problem=str(error))


def _marked(text: str, marks: Sequence[tuple[int, int]]) -> list[tuple[str, bool]]:
    """Returns the parts of a text, and whether each is a word of the query."""
    parts, done = [], 0
    for start, end in marks:
        if start >= done:
            parts += [(text[done:start], False), (text[start:end], True)]
            done = end
    return [part for part in (*parts, (text[done:], False)) if part[0]]
