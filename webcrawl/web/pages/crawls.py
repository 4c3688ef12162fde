"""The page of all crawls of the engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict

from starlette.responses import Response

from webcrawl.web.job_store import running
from webcrawl.web.overview import Overview
from webcrawl.web.page import DashboardPage, View

page = DashboardPage("", "Crawls", of_crawl=False)
_MOST_PLOTTED = 12
"""The most crawls with plots; other crawls are rows of a table."""


@page.get()
async def show(view: View) -> Response:
    crawls = await view.crawls.overviews()
    plotted, others = _divided(crawls)
    elsewhere = [] if plotted else await asyncio.to_thread(running, view.settings)
    return view.render(
        "crawls.html",
        plotted=plotted,
        others=others,
        shown=_shown(plotted),
        server=view.crawls.server,
        elsewhere=elsewhere,
    )


@page.live("crawls")
async def parts(view: View) -> Mapping[str, str]:
    crawls = await view.crawls.overviews()
    plotted, others = _divided(crawls)
    fragments = {
        f"crawl-{overview.crawl}": view.fragment("crawl_card.html", overview=overview) for overview in plotted
    }
    fragments["others"] = view.fragment("crawl_rows.html", others=others)
    points = {overview.crawl: asdict(overview.now) for overview in crawls if overview.is_alive}
    return fragments | {"@points": json.dumps(points), "@shown": _shown(plotted)}


def _shown(plotted: list[Overview]) -> str:
    """Returns the crawls that have a card: a new crawl has no card yet, and an ended crawl becomes a row."""
    return json.dumps([overview.crawl for overview in plotted])


def _divided(crawls: list[Overview]) -> tuple[list[Overview], list[Overview]]:
    """Returns the crawls with plots (the running crawls, or else the first crawl), and the other crawls."""
    running = [overview for overview in crawls if overview.is_alive] or crawls[:1]
    plotted = running[:_MOST_PLOTTED]
    return plotted, [overview for overview in crawls if overview not in plotted]
