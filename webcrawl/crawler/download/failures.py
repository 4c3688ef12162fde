"""Scrapy's exceptions for the failures of a download."""

from __future__ import annotations

import os
import ssl
from typing import Any

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
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
from webcrawl.errors import AddressRefused, BrokenTransfer, NameNotResolved, brief

_TOO_MANY = "Too many headers received"
"""The message of an error of aiohttp's parser that has no class of its own."""


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
    """Returns the exception to raise for an error of aiohttp; None if the error itself should be raised.

    `over_kept`: the request was sent over a connection that had served another request. `proxied`: through a proxy.
    """
    if proxied and (failure := _proxy_failure(error)):
        return failure
    if common := _common_failure(error, url, timeout):
        return common
    if isinstance(error, aiohttp.ClientSSLError):  # also a ValueError, if the certificate is wrong
        return DownloadFailedError(_not_connected(error))
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError | ValueError):
        return UnsupportedURLSchemeError(str(error))
    if isinstance(error, aiohttp.ClientConnectorError):
        return DownloadConnectionRefusedError(_not_connected(error))
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError | ConnectionError):
        kind = KeptConnectionClosed if over_kept else DownloadFailedError
        return kind(brief(f"{type(error).__name__}: {error}"))
    if isinstance(error, aiohttp.ClientResponseError) and isinstance(error.__cause__, HttpProcessingError):
        return _malformed(error)
    if isinstance(error, aiohttp.ClientError):
        return DownloadFailedError(brief(f"{type(error).__name__}: {error}"))
    return None


def _proxy_failure(error: Exception) -> Exception | None:
    """Returns ProxyFailed if a proxy did not pass on a request; its message does not contain credentials."""
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return ProxyFailed(f"cannot connect to the proxy: {error.os_error}")
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return ProxyFailed("cannot connect to the proxy: it takes too long")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        message = f"the proxy answers {error.status} to CONNECT"
        # a status of 5xx means that the proxy cannot reach the host
        return DownloadFailedError(message) if error.status >= 500 else ProxyFailed(message)
    return None


def _common_failure(error: Exception, url: str, timeout: float) -> Exception | None:
    if isinstance(error, TimeoutError):
        return DownloadTimeoutError(f"Getting {url} took longer than {timeout} seconds.")
    if isinstance(error, AddressRefused):
        return RequestRefused(str(error))
    if isinstance(error, NameNotResolved):
        return CannotResolveHostError(str(error))
    return None


def _not_connected(error: aiohttp.ClientError) -> str:
    """Returns why there is no connection; aiohttp's own message contains the repr of the TLS context."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause: Any = error.certificate_error
        why = getattr(cause, "verify_message", None) or str(cause)
    elif isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        # the numbers of a TLS error are not those of the system
        is_system = bool(cause.errno) and not isinstance(cause, ssl.SSLError)
        why = os.strerror(cause.errno) if is_system else str(cause)
    else:
        return str(error)
    return f"cannot connect to {error.host}:{error.port}: {why}"


def _malformed(error: aiohttp.ClientResponseError) -> MalformedAnswer:
    """Returns the exception for an error of aiohttp's parser, whose own message may quote a long line."""
    if isinstance(error.__cause__ and error.__cause__.__cause__, LineTooLong):
        return OverlongHead("a line of the head is longer than 64 KiB")
    message = _flattened(error)
    return OverlongHead(message) if message == _TOO_MANY else MalformedAnswer(brief(message))


def _flattened(error: aiohttp.ClientResponseError) -> str:
    """Returns the message of aiohttp's parser, without the line that points at a column with "^"."""
    message = error.message or repr(error.__cause__ and error.__cause__.__cause__)
    return " ".join(message.split()).removesuffix("^").rstrip()
