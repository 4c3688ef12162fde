"""The exceptions of the tree in `webcrawl.errors` that Scrapy must know as its own."""

from __future__ import annotations

from scrapy.exceptions import DownloadFailedError, DropItem, IgnoreRequest

from webcrawl.errors import CrawlError


class Postponed(CrawlError, IgnoreRequest):
    """The request must not be sent now; the frontier schedules it again without counting a failure."""


class PutOff(Postponed):
    """The host must not be asked for `seconds`, so it is given back until then."""

    def __init__(self, why: object, seconds: float) -> None:
        super().__init__(str(why))
        self.seconds = seconds


class RobotsUnreachable(CrawlError, IgnoreRequest):
    """The robots.txt of a host could not be fetched; until it can, every URL of the host counts as disallowed."""


class RequestRefused(CrawlError, IgnoreRequest):
    """The address guard forbids the connection. This does not count as a failure of the host."""


class RedirectStored(CrawlError, IgnoreRequest):
    """The archived response is a redirect that the crawl followed; its page has passed the pipelines."""


class RenderingFailed(CrawlError, DownloadFailedError):
    """The host answered, but the browser produced no page."""


class ProxyFailed(CrawlError, DownloadFailedError):
    """The proxy could not be reached or did not pass the request on, so the host was not asked."""


class KeptConnectionClosed(CrawlError, DownloadFailedError):
    """The server closed a kept-alive connection when it was reused, before it began to answer."""


class MalformedAnswer(CrawlError, DownloadFailedError):
    """The server's answer cannot be parsed as HTTP; the message says why."""


class OverlongHead(MalformedAnswer):
    """The head of the server's answer has a line that is too long, or too many lines. The host has failed."""


class SchemaRefused(CrawlError, DropItem):
    """An item does not fit its schema; the message says why. The item is dropped, and its page becomes stuck."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.log_level = None
