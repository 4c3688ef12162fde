"""What becomes of the keys of Request.meta that Scrapy documents; docs/requests.md has the same in words."""

from __future__ import annotations

import logging

from scrapy import Request

logger = logging.getLogger(__name__)

NOT_STORED = {
    "depth": "the entry of a URL has a field for it",
    "download_latency": "each download sets it",
    "cached_response": "it is a response that Scrapy's HTTP cache keeps there during one fetch",
}
"""Keys that are not stored with a request -> reason."""

WITHOUT_EFFECT = {
    "autothrottle_dont_adjust_delay": "AutoThrottle is off, because the frontier sets delays",
    "bindaddress": "the HTTP client has one local address, that of DOWNLOAD_BIND_ADDRESS",
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
