"""A page of the dashboard: its address, its entry in the navigation, and its handlers."""

from __future__ import annotations

import asyncio
import functools
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from scrapy.settings import Settings
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import CrawlError, NoSuchPage, StoreError, brief
from webcrawl.opened import Connection, OpenedCrawl
from webcrawl.web.access import Visitor
from webcrawl.web.crawls import Crawls
from webcrawl.web.making import Making
from webcrawl.web.notices import from_page, with_notice
from webcrawl.web.starter import CrawlStarter
from webcrawl.web.templates import Templates

logger = logging.getLogger(__name__)

_MOST_BYTES = 65_536
"""The most bytes of a form."""
_FORM_SECONDS = 30.0

Values = Mapping[str, str]


class Fields(dict[str, str]):
    """The fields of a form; a missing field raises StoreError."""

    def __missing__(self, name: str) -> str:
        raise StoreError(f"the form has no field {name!r}")


@dataclass(frozen=True)
class Site:
    """The objects that all pages share."""

    crawls: Crawls
    pages: Sequence[DashboardPage]
    """The pages in the order of the navigation."""
    templates: Templates
    is_open: bool
    """Whether no login is needed."""
    starter: CrawlStarter
    making: Making
    """The commands of this dashboard."""


@dataclass
class View:
    """A request of a visitor, with the objects that a page needs to answer it."""

    request: Request
    page: DashboardPage
    site: Site
    visitor: Visitor
    crawl: str = ""
    """The CRAWL_ID in the address; "" for a page that is not about a crawl."""
    opened_crawl: OpenedCrawl | None = None
    form: Fields = field(default_factory=Fields)

    @property
    def query(self) -> dict[str, str]:
        return dict(self.request.query_params)

    @property
    def crawls(self) -> Crawls:
        return self.site.crawls

    @property
    def making(self) -> Making:
        return self.site.making

    @property
    def opened(self) -> OpenedCrawl:
        """The crawl, connected to its engine."""
        if self.opened_crawl is None:
            raise NoSuchPage("this page is about no crawl")
        return self.opened_crawl

    @property
    def connection(self) -> Connection:
        return self.opened.connection

    @property
    def settings(self) -> Settings:
        """The settings of the dashboard, with the CRAWL_ID of the crawl."""
        return self.crawls.settings_of(self.crawl)

    @property
    def is_operator(self) -> bool:
        return self.visitor.is_operator

    @property
    def own_address(self) -> str:
        """The path and query of this page."""
        url = self.request.url
        return url.path + (f"?{url.query}" if url.query else "")

    @property
    def navigation(self) -> list[tuple[str, str, bool]]:
        """Address, title, and whether it is this page, for pages about all crawls and then for pages of this crawl."""
        return [
            (self.address(page.name) if page.of_crawl else f"/{page.name}", page.title, page is self.page)
            for page in sorted(self.site.pages, key=lambda page: page.of_crawl)
            if (self.crawl or not page.of_crawl) and page.is_for(self.visitor)
        ]

    def has(self, name: str) -> bool:
        """Returns whether the dashboard has a page of this name."""
        return any(page.name == name for page in self.site.pages)

    def render(
        self, template: str, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any
    ) -> Response:
        """Returns a page made from a template."""
        return HTMLResponse(self.fragment(template, **values), status, headers)

    def fragment(self, template: str, **values: Any) -> str:
        """Returns the HTML of a part of a page, made from a template."""
        common = {"view": self, "crawl": self.crawl, "operator": self.is_operator, "url_of": self.address}
        return self.site.templates.render(template, common | values)

    def address(self, path: str = "", /, **query: Any) -> str:
        """Returns the address of a page of this crawl: `address("hosts", host=...)`."""
        base = f"/crawls/{self.crawl}" if self.crawl else ""
        text = "/".join(part for part in (base, path) if part) or "/"
        known = {name: value for name, value in query.items() if value not in (None, "")}
        return text + (f"?{urlencode(known)}" if known else "")

    def done(self, notice: str, to: str | None = None) -> Response:
        """Redirects the browser to the page with the form, or to the page `to`, which shows the notice."""
        return RedirectResponse(with_notice(to or from_page(self.form.get("next", "/")), notice), 303)


Handler = Callable[[View], Awaitable[Response]]
Live = Callable[[View], Awaitable[Values]]


class DashboardPage:
    """A page. `name`: the path below "/crawls/{crawl}", or below "/" for a page that is not about a crawl.

    Readers do not see a page `for_operators`.
    """

    def __init__(self, name: str, title: str, *, of_crawl: bool = True, for_operators: bool = False) -> None:
        self.name = name
        self.for_operators = for_operators
        self.title = title
        self.of_crawl = of_crawl
        self.live_parts: dict[str, Live] = {}
        self._handlers: list[tuple[str, str, Handler]] = []

    def is_for(self, visitor: Visitor) -> bool:
        """Returns whether a visitor may see the page."""
        return visitor.is_operator or not self.for_operators

    def get(self, path: str = "") -> Callable[[Handler], Handler]:
        """Registers a handler of GET."""
        return self._register("GET", path)

    def post(self, path: str) -> Callable[[Handler], Handler]:
        """Registers an action of operators: a handler of POST, whose form has been checked."""
        return self._register("POST", path)

    def live(self, name: str) -> Callable[[Live], Live]:
        """Registers a function that returns the live parts of an open page: HTML by the id of the element.

        The function is called every two seconds for all open pages of a crawl with the same query together, with the
        view of a reader.
        """

        def register(function: Live) -> Live:
            self.live_parts[name] = function
            return function

        return register

    def routes(self, site: Site) -> list[Route]:
        """Returns the routes of the page."""
        base = "/crawls/{crawl}" if self.of_crawl else ""
        routes = []
        for method, path, handler in self._handlers:
            path_of_page = "/".join(part for part in (base, self.name, path) if part)
            answer = functools.partial(_answer, self, site, handler)
            routes.append(Route("/" + path_of_page.lstrip("/"), answer, methods=[method]))
        return routes

    def _register(self, method: str, path: str) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            self._handlers.append((method, path, handler))
            return handler

        return register


async def _answer(page: DashboardPage, site: Site, handler: Handler, request: Request) -> Response:
    """Returns the response of a page, or the page of the error that it raised."""
    view = View(request, page, site, request.state.visitor, request.path_params.get("crawl", ""))
    try:
        if not page.is_for(view.visitor):
            return _for_operators(view)
        if request.method == "POST":
            refusal = await _read_form(view)
            if refusal is not None:
                return refusal
        if view.crawl:
            view.opened_crawl = await site.crawls.opened(view.crawl)
            if view.opened_crawl is None:
                # the error page must not link to pages of this crawl
                missing, view.crawl = view.crawl, ""
                raise NoSuchPage(f"there is no crawl {missing!r} in {site.crawls.server}")
        return await handler(view)
    except NoSuchPage as error:
        return view.render("error.html", 404, title="Not found", reason=str(error))
    except UNAVAILABLE as error:
        reason = f"The engine of the crawls does not answer ({brief(error).rstrip('.')}). Nothing is lost."
        again = view.own_address if request.method == "GET" else from_page(view.form.get("next", "/"))
        return view.render("error.html", 503, title="The engine is away", reason=reason, again=again)
    except CrawlError as error:
        # the form of a page is there without the wrong words, too
        path, _, query = view.own_address.partition("?")
        back = from_page(view.form.get("next", "/")) if request.method == "POST" else path if query else ""
        return view.render("error.html", 400, title="That did not work", reason=str(error), back=back)


def _for_operators(view: View) -> Response:
    return view.render("error.html", 403, title="For operators", reason="Your role is that of a reader.")


async def _read_form(view: View) -> Response | None:
    """Reads the form of an action; returns the answer if the form is refused."""
    if not view.is_operator:
        return _for_operators(view)
    form = await read_form(view.request)
    if form is None:
        return PlainTextResponse("The body is too long, or not a form.", 413)
    view.form = form
    if not hmac.compare_digest(form.get("token", "").encode(), view.visitor.form_token.encode()):
        return view.render(
            "error.html",
            403,
            title="The form is out of date",
            reason="Load the page again, then repeat the action.",
        )
    return None


async def read_form(request: Request) -> Fields | None:
    """Returns the fields of a form; None if the body is too long, takes too long, or is no form."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return None
    body = b""
    try:
        async with asyncio.timeout(_FORM_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > _MOST_BYTES:
                    return None
        return Fields(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1000))
    except (TimeoutError, ValueError):
        return None


def whole(text: str, name: str) -> int:
    """Returns the whole number in the field `name` of a query or form; raises StoreError."""
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise StoreError(f"{name}: {text!r} is not a whole number of 0 or more")
    return int(text)
