"""The page of duplicates: clusters of a first page and its copies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from starlette.responses import Response

from webcrawl.opened import host_named
from webcrawl.stores.clusters import clusters
from webcrawl.urls.seeds import seed_url
from webcrawl.web.crawls import in_metadata
from webcrawl.web.page import DashboardPage, View

page = DashboardPage("duplicates", "Duplicates")

_MOST_CLUSTERS = 50
_MOST_SHOWN = 5


@page.get()
async def table(view: View) -> Response:
    query = view.query
    host, first = query.get("host", "").strip(), query.get("first", "").strip()
    host, first = host_named(host) if host else "", seed_url(first) if first else ""
    read = partial(clusters, after=query.get("after", ""), host=host or None, first=first or None)
    window = await in_metadata(view.opened, read)
    return view.render(
        "duplicates.html",
        window=window,
        shown=window.clusters[:_MOST_CLUSTERS] if window else [],
        most_copies=100 if first else _MOST_SHOWN,
        chosen={"host": host, "first": first, "after": query.get("after", "")},
        total=await _total(view),
    )


@page.live("duplicates")
async def parts(view: View) -> Mapping[str, str]:
    return {"@total": str(await _total(view))}


async def _total(view: View) -> int:
    """Returns the number of duplicates that the crawl has found."""
    totals = await view.connection.crawl.totals()
    return totals.get("exact_duplicates", 0) + totals.get("near_duplicates", 0)
