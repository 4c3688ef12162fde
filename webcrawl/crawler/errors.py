"""Why a request comes again, by no fault of its host."""

from __future__ import annotations

from scrapy.exceptions import DownloadFailedError, IgnoreRequest


class Postponed(IgnoreRequest):
    """A request that must not go out now, by no fault of its own: the frontier brings it again."""


class RenderingFailed(DownloadFailedError):
    """The host has answered, but no page came of it in the browser."""


class RobotsUnreachable(IgnoreRequest):
    """The host's robots.txt cannot be had just now: until it can, everything must be taken for forbidden."""


class KeptConnectionClosed(DownloadFailedError):
    """The server closed a connection that it had kept, just as it was used again: it has not begun to answer."""


class MalformedAnswer(DownloadFailedError):
    """The server answered, but not with what can be read as HTTP; the message says what is wrong."""


class RequestRefused(IgnoreRequest):
    """The address guard forbids the connection; it is not a failure of the host."""
