"""Scrapy's exceptions for the failures of a download."""

from __future__ import annotations

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    UnsupportedURLSchemeError,
)

from webcrawl.crawler.errors import (
    KeptConnectionClosed,
    MalformedAnswer,
    OverlongHead,
    ProxyFailed,
    RequestRefused,
)
from webcrawl.errors import (
    AddressRefused,
    BrokenTransfer,
    HandshakeFailed,
    HeadTooLong,
    MalformedHead,
    NameNotResolved,
    NotConnected,
    TunnelRefused,
    Unconfirmed,
    brief,
)


def protocol_failure(error: Exception, url: str, timeout: float) -> Exception | None:
    """Returns the exception to raise for an error of any protocol; None if the error itself should be raised."""
    if common := _common_failure(error, url, timeout):
        return common
    if isinstance(error, ConnectionRefusedError):
        return DownloadConnectionRefusedError(str(error))
    if isinstance(error, OSError | EOFError | BrokenTransfer):
        return DownloadFailedError(brief(f"{type(error).__name__}: {error}"))
    return None


def http_failure(
    error: Exception, url: str, timeout: float, *, over_kept: bool, proxied: bool = False
) -> Exception | None:
    """Returns the exception to raise for an error of the HTTP client; None if the error itself should be raised.

    `over_kept`: the request was sent over a connection that had served another request. `proxied`: through a proxy.
    """
    if proxied and (failure := _proxy_failure(error)):
        return failure
    if common := _common_failure(error, url, timeout):
        return common
    match error:
        case HandshakeFailed():
            return DownloadFailedError(str(error))
        case NotConnected():
            return DownloadConnectionRefusedError(str(error))
        case HeadTooLong():
            return OverlongHead(str(error))
        case MalformedHead():
            return MalformedAnswer(brief(error))
        case ConnectionError() if not isinstance(error, Unconfirmed):
            kind = KeptConnectionClosed if over_kept else DownloadFailedError
            return kind(brief(f"{type(error).__name__}: {error}"))
        case OSError():
            return DownloadFailedError(brief(f"{type(error).__name__}: {error}"))
        case ValueError():
            return UnsupportedURLSchemeError(str(error))
    return None


def _proxy_failure(error: Exception) -> Exception | None:
    """Returns ProxyFailed if a proxy did not pass on a request; its message does not contain credentials."""
    if isinstance(error, NotConnected) and error.is_proxy:
        return ProxyFailed(f"cannot connect to the proxy: {error.reason}")
    if isinstance(error, TunnelRefused):
        return ProxyFailed(str(error)) if error.is_proxy else DownloadFailedError(str(error))
    return None


def _common_failure(error: Exception, url: str, timeout: float) -> Exception | None:
    if isinstance(error, TimeoutError):
        return DownloadTimeoutError(f"Getting {url} took longer than {timeout} seconds.")
    if isinstance(error, AddressRefused):
        return RequestRefused(str(error))
    if isinstance(error, NameNotResolved):
        return CannotResolveHostError(str(error))
    return None
