"""The page of all crawls of the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from starlette.responses import Response

from webcrawl.web.overview import Overview
from webcrawl.web.page import Page, View

page = Page("", "Crawls", of_crawl=False)
_MOST_PLOTTED = 12
"""Crawls that are shown with plots; the others are rows of a table."""


@page.get()
async def show(view: View) -> Response:
    crawls = await view.crawls.overviews.all()
    plotted, others = _divided(crawls)
    return view.render(
        "crawls.html", plotted=plotted, others=others, shown=_shown(plotted), server=view.crawls.server
    )


@page.live("crawls")
async def parts(view: View) -> Mapping[str, str]:
    crawls = await view.crawls.overviews.all()
    plotted, others = _divided(crawls)
    found = {f"crawl-{one.crawl}": view.fragment("crawl_card.html", one=one) for one in plotted}
    found["others"] = view.fragment("crawl_rows.html", others=others)
    points = {one.crawl: asdict(one.now) for one in crawls if one.is_alive}
    return found | {"@points": json.dumps(points), "@shown": _shown(plotted)}


def _shown(plotted: list[Overview]) -> str:
    """The crawls that have a card: one that has begun meanwhile has none yet, and one that has ended becomes a row."""
    return json.dumps([one.crawl for one in plotted])


def _divided(crawls: list[Overview]) -> tuple[list[Overview], list[Overview]]:
    """Crawls with plots: those that run, or the only ones; then the others."""
    running = [one for one in crawls if one.is_alive] or crawls[:1]
    plotted = running[:_MOST_PLOTTED]
    return plotted, [one for one in crawls if one not in plotted]
