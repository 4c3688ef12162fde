"""Why a request comes again, by no fault of its host."""

from __future__ import annotations

from scrapy.exceptions import DownloadFailedError, IgnoreRequest


class Postponed(IgnoreRequest):
    """A request that must not go out now, by no fault of its own: the frontier brings it again."""


class RenderingFailed(DownloadFailedError):
    """The host has answered, but no page came of it in the browser."""
