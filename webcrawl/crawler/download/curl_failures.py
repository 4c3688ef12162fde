"""Scrapy's exceptions for the errors of libcurl."""

from __future__ import annotations

import re

from curl_cffi import CurlError
from curl_cffi.const import CurlECode
from scrapy.exceptions import DownloadConnectionRefusedError, DownloadFailedError, UnsupportedURLSchemeError

from webcrawl.crawler.errors import MalformedAnswer, OverlongHead, ProxyFailed
from webcrawl.errors import brief

_REFUSED = (CurlECode.COULDNT_CONNECT, CurlECode.COULDNT_RESOLVE_PROXY, CurlECode.COULDNT_RESOLVE_HOST)
_NO_TUNNEL = re.compile(r"CONNECT tunnel failed, response (\d+)")
_MALFORMED = (CurlECode.WEIRD_SERVER_REPLY, CurlECode.UNSUPPORTED_PROTOCOL)


def failure_of(error: CurlError, *, proxied: bool) -> Exception:
    """Returns Scrapy's exception for an error of libcurl before the head of a response."""
    reason = str(error).partition(". See https://")[0].removeprefix("Failed to perform, ")
    code = error.code
    if tunnel := _NO_TUNNEL.search(reason):
        # a status of 5xx means that the proxy cannot reach the host
        kind = DownloadFailedError if tunnel[1].startswith("5") else ProxyFailed
        return kind(f"the proxy answers {tunnel[1]} to CONNECT")
    if proxied and (code in _REFUSED or code == CurlECode.PROXY):
        return ProxyFailed(f"cannot connect to the proxy: {reason}")
    if code in _REFUSED:
        return DownloadConnectionRefusedError(reason)
    if code == CurlECode.URL_MALFORMAT:
        return UnsupportedURLSchemeError(reason)
    if code == CurlECode.TOO_LARGE:
        return OverlongHead(brief(reason))
    if code in _MALFORMED:
        return MalformedAnswer(brief(reason))
    return DownloadFailedError(brief(reason))
