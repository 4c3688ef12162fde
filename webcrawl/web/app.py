"""The ASGI application of the dashboard, and its pages that belong to no crawl: the login, and for unknown addresses.

The login page exchanges a token for a cookie.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from scrapy.settings import Settings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from webcrawl.opened import OpenedCrawl
from webcrawl.web.access import Access, Role, Visitor, WrongTokens
from webcrawl.web.crawls import Crawls
from webcrawl.web.guard import Guard, cookie_name, set_cookie
from webcrawl.web.live import Sampler, live_route, reader_of
from webcrawl.web.making import Making
from webcrawl.web.notices import from_page
from webcrawl.web.page import DashboardPage, Site, View, read_form
from webcrawl.web.pages import PAGES
from webcrawl.web.pages.archived import followed_route
from webcrawl.web.starter import CrawlStarter
from webcrawl.web.templates import FOLDER, Templates

_ELSEWHERE = DashboardPage("", "", of_crawl=False)
_LOGIN = DashboardPage("login", "Log in", of_crawl=False)
_NOBODY = Visitor(Role.READER, "", "")
_WRONG_SECONDS = 1.0
"""The seconds of delay after a wrong token."""


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
    routes += [live_route(sampler, live), *_login_routes(access, site), followed_route()]
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


def _login_routes(access: Access, site: Site) -> list[Route]:
    """Returns the routes to log in and out."""
    wrong = WrongTokens()
    return [
        Route("/login", partial(_ask, site)),
        Route("/login", partial(_log_in, access, site, wrong), methods=["POST"]),
        Route("/login/known", _is_known),
        Route("/logout", _log_out, methods=["POST"]),
    ]


async def _ask(site: Site, request: Request) -> Response:
    wanted = from_page(request.query_params.get("next", "/"))
    return _login_page(request, site, wanted, 200)


async def _log_in(access: Access, site: Site, wrong: WrongTokens, request: Request) -> Response:
    address = request.client.host if request.client else ""
    if not wrong.may_try(address):
        return PlainTextResponse("Too many wrong tokens: try again in a minute.", 429)
    form = await read_form(request)
    if form is None:
        return PlainTextResponse("The body is too long, or not a form.", 413)
    wanted, role = from_page(form.get("next", "/")), access.role_of(form.get("key", ""))
    if role is None:
        wrong.note(address)
        await asyncio.sleep(_WRONG_SECONDS)
        return _login_page(request, site, wanted, 401)
    response = RedirectResponse(wanted, 303)
    set_cookie(response, request, access.admit(role))
    return response


async def _is_known(request: Request) -> Response:
    """Tells the login page whether the browser has a valid cookie: it sends none when it follows a link in a mail."""
    return Response(status_code=200 if request.state.visitor else 204)


async def _log_out(request: Request) -> Response:
    response = RedirectResponse("/login", 303)
    response.delete_cookie(cookie_name(request), path="/", httponly=True, samesite="strict")
    return response


def _login_page(request: Request, site: Site, wanted: str, status: int) -> Response:
    view = View(request, _LOGIN, site, request.state.visitor or _NOBODY)
    return view.render("login.html", status, wanted=wanted, wrong=status == 401)
