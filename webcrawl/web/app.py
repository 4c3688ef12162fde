"""The ASGI application of the dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from scrapy.settings import Settings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from webcrawl.opened import OpenedCrawl
from webcrawl.web.access import Access, Role, Visitor
from webcrawl.web.crawls import Crawls
from webcrawl.web.guard import Guard
from webcrawl.web.live import Sampler, live_route, reader_of
from webcrawl.web.login import login_routes
from webcrawl.web.making import Making
from webcrawl.web.page import DashboardPage, Site, View
from webcrawl.web.pages import PAGES
from webcrawl.web.pages.archived import followed_route
from webcrawl.web.starter import CrawlStarter
from webcrawl.web.templates import FOLDER, Templates

_ELSEWHERE = DashboardPage("", "", of_crawl=False)
_NOBODY = Visitor(Role.READER, "", "")


class Dashboard(Guard):
    """The application. `close` ends the streams of open pages, for which the server would wait."""

    def __init__(self, app: ASGIApp, access: Access, sampler: Sampler, site: Site) -> None:
        super().__init__(app, access)
        self._site = site
        self._sampler = sampler

    async def close(self) -> None:
        await self._sampler.close()
        await self._site.making.close()
        await self._site.crawls.close()


def create_app(
    engine: OpenedCrawl,
    settings: Settings,
    access: Access,
    starter: CrawlStarter,
    pages: Sequence[DashboardPage] = PAGES,
) -> Dashboard:
    """Makes the dashboard of an engine to which `engine` is connected."""
    site = Site(Crawls(engine, settings), pages, Templates(), access.is_open, starter, Making())
    live = {name: (page, part) for page in pages for name, part in page.live_parts.items()}
    sampler = Sampler(reader_of(site, live))

    missing = partial(_missing, site)
    routes: list[Route | Mount] = [route for page in pages for route in page.routes(site)]
    routes += [live_route(sampler, live), *login_routes(access, site), followed_route()]
    routes.append(Mount("/static", StaticFiles(directory=FOLDER / "static")))
    app = Starlette(routes=routes, exception_handlers={HTTPException: missing})
    return Dashboard(app, access, sampler, site)


async def _missing(site: Site, request: Request, error: Exception) -> Response:
    """Returns the page for an unknown address or a wrong method."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    visitor = getattr(request.state, "visitor", None) or _NOBODY
    view = View(request, _ELSEWHERE, site, visitor)
    reason = f"There is no page {request.url.path!r}." if status == 404 else "The page has no such method."
    return view.render(
        "error.html", status, title="Not found" if status == 404 else "Not allowed", reason=reason
    )
