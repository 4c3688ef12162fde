"""The login page, which exchanges a token for a cookie."""

from __future__ import annotations

import asyncio
from functools import partial

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from webcrawl.web.access import Access, Role, Visitor
from webcrawl.web.guard import cookie_name, set_cookie
from webcrawl.web.notices import from_page
from webcrawl.web.page import DashboardPage, Site, View, read_form

_PAGE = DashboardPage("login", "Log in", of_crawl=False)
_NOBODY = Visitor(Role.READER, "", "")
_WRONG_SECONDS = 1.0
"""The seconds of delay after a wrong token. All wrong tokens wait in one queue, to prevent guessing."""


def login_routes(access: Access, site: Site) -> list[Route]:
    """Returns the routes to log in and out."""
    line = asyncio.Lock()
    return [
        Route("/login", partial(_ask, site)),
        Route("/login", partial(_log_in, access, site, line), methods=["POST"]),
        Route("/login/known", _is_known),
        Route("/logout", _log_out, methods=["POST"]),
    ]


async def _ask(site: Site, request: Request) -> Response:
    wanted = from_page(request.query_params.get("next", "/"))
    return _page(request, site, wanted, 200)


async def _log_in(access: Access, site: Site, line: asyncio.Lock, request: Request) -> Response:
    form = await read_form(request)
    if form is None:
        return PlainTextResponse("The body is too long, or not a form.", 413)
    wanted, role = from_page(form.get("next", "/")), access.role_of(form.get("key", ""))
    if role is None:
        async with line:
            await asyncio.sleep(_WRONG_SECONDS)
        return _page(request, site, wanted, 401)
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


def _page(request: Request, site: Site, wanted: str, status: int) -> Response:
    view = View(request, _PAGE, site, request.state.visitor or _NOBODY)
    return view.render("login.html", status, wanted=wanted, wrong=status == 401)
