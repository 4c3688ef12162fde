"""The keys of Request.meta that Scrapy documents, as the frontier treats them; see docs/guide/requests.md."""

from __future__ import annotations

import logging
import math

from scrapy import Request

from webcrawl.frontier.entry import MOST_ATTEMPTS

logger = logging.getLogger(__name__)

_LONGEST_SECONDS = 1e9
"""About 32 years; the engine and the database take no later dates."""

NOT_STORED = {
    "depth": "the entry of a URL has a field for it",
    "download_latency": "each download sets it",
    "cached_response": "Scrapy's HTTP cache keeps a response there during one fetch",
}
"""Keys that are not stored with a request -> reason."""

WITHOUT_EFFECT = {
    "autothrottle_dont_adjust_delay": "AutoThrottle is off, because the frontier sets delays",
    "bindaddress": "BIND_ADDRESSES has the local addresses, of which a host sees one",
    "ftp_local_filename": "bodies of FTP are kept like those of HTTP",
    "ftp_passive": "FTP is always passive",
    "ftp_password": "one login is used for all FTP servers: set FTP_PASSWORD",
    "ftp_user": "one login is used for all FTP servers: set FTP_USER",
    "is_secure": "the scheme s3 is not supported",
    "priority_adjust": "a retry of the frontier keeps its priority, because it waits for its time",
}
"""Keys that are stored but that no component of this project reads -> reason."""


class KeyWarnings:
    """Logs once for each key of Request.meta that a spider uses although it has no effect."""

    def __init__(self) -> None:
        self._left = set(WITHOUT_EFFECT)

    def check(self, request: Request) -> None:
        for key in sorted(self._left & request.meta.keys()):
            self._left.remove(key)
            logger.warning('meta["%s"] of %s has no effect: %s', key, request, WITHOUT_EFFECT[key])


def most_retries(request: Request, usual: int) -> int:
    """Returns the most retries of a failed request, by `dont_retry` and `max_retry_times` in its meta."""
    if request.meta.get("dont_retry"):
        return 0
    most = request.meta.get("max_retry_times")
    if most is None:
        return usual
    if isinstance(most, int):
        return min(most, MOST_ATTEMPTS - 1)  # the attempts are not counted beyond
    logger.error('%s: meta["max_retry_times"] is %r, not an integer; it is ignored', request, most)
    return usual


def recrawl_after(request: Request) -> float | None:
    """Returns `response.meta["recrawl_after"]`: the seconds after which the spider wants the page again, up to 1e9."""
    after = request.meta.get("recrawl_after")
    if after is None:
        return None
    if isinstance(after, int | float) and 0 <= after < math.inf:
        return float(min(after, _LONGEST_SECONDS))
    logger.error('%s: meta["recrawl_after"] is %r, not a number of seconds; it is ignored', request, after)
    return None
