"""The page of stored pages: a list with filters and orders, read in windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from starlette.responses import Response

from webcrawl.errors import StoreError
from webcrawl.opened import host_named
from webcrawl.stores.locations import Row
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.page_filter import PageFilter
from webcrawl.stores.page_list import MOST_READ, PageList
from webcrawl.stores.selection import DUPLICATES
from webcrawl.web.crawls import in_metadata
from webcrawl.web.page import DashboardPage, View, whole

page = DashboardPage("pages", "Pages")

_LATEST = 8
_FIELDS = {"type": "mime_type"}
"""The fields of a filter whose names in addresses are shorter."""
FILTERS = ("status", "host", "type", "language", "depth", "duplicates", "since", "until", "text")


@page.get()
async def table(view: View) -> Response:
    query = view.query
    chosen = {name: query.get(name, "").strip() for name in FILTERS}
    if chosen["host"]:
        chosen["host"] = _host(chosen["host"])
    order, after = query.get("order") or "date", query.get("after", "")
    start = whole(query.get("start", "0"), "start")
    wanted = PageFilter(crawl=view.crawl, **{_FIELDS.get(name, name): text for name, text in chosen.items()})
    window = await in_metadata(
        view.opened, lambda metadata: PageList(metadata, wanted, order).window(after, start)
    )
    return view.render(
        "pages.html",
        window=window,
        chosen=chosen,
        is_filtered=any(chosen.values()),
        listed=partial(view.address, page.name, **chosen),
        order=order,
        after=after,
        start=start,
        most_read=MOST_READ,
        kinds=DUPLICATES,
        total=await _total(view),
    )


@page.live("pages")
async def parts(view: View) -> Mapping[str, str]:
    return {"@total": str(await _total(view))}


async def _total(view: View) -> int:
    """Returns the number of rows that the crawl has written."""
    return (await view.connection.crawl.totals()).get("stored", 0)


def _host(text: str) -> str:
    """Returns the host of a URL; a name without a scheme is that of https."""
    return host_named(text if "://" in text else f"https://{text}")


async def latest_pages(view: View) -> Sequence[Row]:
    """Returns the URLs of the crawl that were tried last; none if the metadata database does not answer."""

    def read(metadata: Metadata) -> Sequence[Row]:
        return PageList(metadata, PageFilter(crawl=view.crawl)).latest(_LATEST)

    with suppress(StoreError):
        return await in_metadata(view.opened, read) or ()
    return ()
