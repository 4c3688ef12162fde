"""The address to which links in an archived page lead.

The page in the frame has an origin of its own, so the browser sends no cookie when one of its links is followed, and
the frame may not lead the page around it anywhere. It comes here, to a page without contents that needs no token. The
page around the frame sees that (static/replay.js), and opens the archived page of the URL.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

_PATH = "/followed"
LINKS_AT = f"{_PATH}?url="
"""The beginning of the address for a link, before the escaped URL."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'self'",
    "X-Frame-Options": "SAMEORIGIN",
}


def followed_route() -> Route:
    """Returns the route."""
    return Route(_PATH, _followed)


async def _followed(request: Request) -> Response:
    return HTMLResponse(
        '<!doctype html><html lang="en"><title>A link</title><p>A link of an archived page.', headers=_HEADERS
    )
