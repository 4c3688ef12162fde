"""The middleware around all pages: Host check, cookies, cross-site requests, and security headers."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webcrawl.web.access import Access, Visitor

_METHODS = ("GET", "HEAD", "POST")
_FREE = ("/static/", "/login", "/followed")
"""Paths that need no token."""
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
        "connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""The headers of each response; a response may override them."""


class Guard:
    """An ASGI application around another application, to which it passes only requests of visitors."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope)
            send = _with_headers(send, request)
            refusal = self._refusal(request) or self._admit(request)
            await (refusal or self._app)(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        """Returns the response to a request that no visitor may send, or None."""
        if not self._access.allows_host(request.headers.get("host", "")):
            text = "Unknown host name. If it belongs to this dashboard, start the dashboard with --name NAME."
            return PlainTextResponse(text, 421)
        if request.method not in _METHODS:
            return PlainTextResponse("Only GET, HEAD and POST.", 405, {"Allow": ", ".join(_METHODS)})
        if request.method == "POST" and not is_same_site(request):
            return PlainTextResponse("The form was not sent by a page of this dashboard.", 403)
        return None

    def _admit(self, request: Request) -> Response | None:
        """Finds or creates the visitor; returns the response to a request without a token, or None."""
        access, cookie = self._access, request.cookies.get(cookie_name(request), "")
        visitor = access.visitor(cookie)
        if visitor is None and access.is_open:
            visitor = request.state.new_visitor = access.admit(access.role)
        request.state.visitor = visitor
        if visitor or request.url.path.startswith(_FREE):
            return None
        if request.method == "POST" or "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse("Log in first.", 401)
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?next={quote(wanted)}", 303)


def cookie_name(request: Request) -> str:
    """Returns the name of the cookie, which has the port, because the ports of a host share its cookies."""
    return f"webcrawl-{(request.scope.get('server') or ('', 0))[1]}"


def set_cookie(response: Response, request: Request, visitor: Visitor) -> None:
    """Sets the cookie of a visitor. Scripts cannot read it, and other sites cannot make the browser send it."""
    secure = request.url.scheme == "https"
    name = cookie_name(request)
    response.set_cookie(name, visitor.cookie, httponly=True, samesite="strict", secure=secure, path="/")


def is_same_site(request: Request) -> bool:
    """Returns whether a page of this dashboard sent a form, according to the headers of the browser."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def _with_headers(send: Send, request: Request) -> Send:
    async def add(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            if request.url.path.startswith("/static/"):
                headers["Cache-Control"] = "no-cache"
            visitor = getattr(request.state, "new_visitor", None)
            if visitor is not None:
                response = Response()
                set_cookie(response, request, visitor)
                headers.append("Set-Cookie", response.headers["set-cookie"])
        await send(message)

    return add
