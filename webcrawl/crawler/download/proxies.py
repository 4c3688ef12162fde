"""The HTTP proxy of a request, as Scrapy's HttpProxyMiddleware sets it."""

from __future__ import annotations

import base64
from urllib.parse import quote, urlsplit

from aiohttp.helpers import is_ip_address
from scrapy import Request
from scrapy.exceptions import DownloadFailedError
from scrapy.utils.url import add_http_if_no_scheme

from webcrawl.hosts.address_guard import AddressGuard
from webcrawl.urls.canonical import DEFAULT_PORTS


def proxy_of(request: Request, guard: AddressGuard, encoding: str) -> str | None:
    """Returns the URL of the proxy in Request.meta, with the credentials of Proxy-Authorization; None without one.

    The guard lets the proxy's address through, since an operator chose it. `encoding` is that of the credentials.
    Raises DownloadFailedError for another scheme of authorization than Basic.
    """
    proxy = request.meta.get("proxy")
    if not proxy:
        return None
    url = urlsplit(add_http_if_no_scheme(proxy))
    if url.hostname and not is_ip_address(url.hostname):
        guard.allow_host(url.hostname, url.port or DEFAULT_PORTS.get(url.scheme, 80))
    credentials = request.headers.get("Proxy-Authorization")
    if credentials is None:
        return url.geturl()
    scheme, _, token = credentials.decode("ascii").partition(" ")
    if scheme.lower() != "basic":
        raise DownloadFailedError(f"Proxy-Authorization scheme {scheme!r} is not supported, only Basic.")
    user, _, password = base64.b64decode(token).decode(encoding).partition(":")
    return url._replace(netloc=f"{quote(user, '')}:{quote(password, '')}@{url.netloc}").geturl()
