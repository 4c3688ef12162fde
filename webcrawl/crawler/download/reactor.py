"""Refuses components that need Twisted's reactor in a crawl that runs without one."""

from __future__ import annotations

import traceback
from pathlib import Path

import scrapy
import twisted
from scrapy.exceptions import NotConfigured, NotSupported

from webcrawl.errors import ConfigurationError

_ADVICE = (
    "this crawl runs on asyncio without it: remove the component, use one that runs on asyncio (for browser "
    "impersonation webcrawl.crawler.download.curl.CurlDownloadHandler), or set TWISTED_REACTOR_ENABLED = True"
)

_LIBRARIES = (
    *(package.__path__[0] for package in (scrapy, twisted)),
    __file__.removesuffix(str(Path("crawler", "download", Path(__file__).name))),
    "<frozen importlib",
)
"""Prefixes of the names of files that raise the exception, but do not belong to the component."""


def reactor_is_missing(error: BaseException | None) -> bool:
    """Returns whether an exception or one of its causes says that code needs Twisted's reactor.

    Without a reactor, Scrapy forbids its import (ImportError), and Scrapy's own parts raise RuntimeError, NotConfigured
    or NotSupported. These errors have no class of their own, but all messages name the reactor.
    """
    while error is not None:
        if isinstance(error, ImportError | RuntimeError | NotConfigured | NotSupported) and "reactor" in str(
            error
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


def refusal(error: BaseException) -> ConfigurationError:
    """Returns the exception that ends a crawl in which a component needs the reactor; it names the component's code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    where = f"{own[-1].filename}:{own[-1].lineno}" if own else str(error)
    return ConfigurationError(f"a component needs Twisted's reactor ({where}); {_ADVICE}")


def unusable_handler(scheme: str, name: str, reason: str) -> ConfigurationError:
    """Returns the exception that refuses the download handler of a scheme."""
    advice = f" {_ADVICE[0].upper()}{_ADVICE[1:]}" if "reactor" in reason else ""
    return ConfigurationError(f"DOWNLOAD_HANDLERS {scheme!r}: {name} cannot be used: {reason}{advice}")
