"""The settings of a temporary crawl, and the only local file that it may read."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Self

from scrapy import Request
from scrapy.core.downloader.handlers.file import FileDownloadHandler
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.misc import build_from_crawler

from webcrawl.config import read
from webcrawl.errors import CrawlError

SHELL_URL = "SHELL_URL"
"""Key in the settings of a shell: its URL, or an empty string. The address guard lets its host pass."""
NAMED_FILE = "NAMED_FILE"
"""Key in the settings of a command: the file: URL that its user named; no other file is read."""
_END_SECONDS = 5.0
_SCHEDULER = "webcrawl.temporary.scheduler.TemporaryScheduler"
_ISOLATED: dict[str, object] = {
    "SCHEDULER": _SCHEDULER,
    "CRAWL_ID": "",
    "JOBDIR": None,
    "STORE_URI": "",
    "METADATA_URI": "",
    "FRONTIER_SPILL_URI": "",
    "LISTENERS_MAXLEN": 0,
    "LINKS": False,
    "NOTIFY": [],
    "PROGRESS": "off",
    "METRICS_PORT": None,
    "TRACES": False,
    # one attempt, because the user waits for the answer
    "FRONTIER_MAX_ATTEMPTS": 1,
    "FRONTIER_SHARDS": 1,
    "SEEN_SET": "exact",
    "CRAWL_MAX_PAGES": 0,
    "CRAWL_MAX_BYTES": 0,
    "HOST_MAX_PAGES": 0,
    "HOST_MAX_BYTES": 0,
    # a robots.txt must not add pages to fetch
    "SITEMAPS_FROM_ROBOTS": False,
}
_NO_SERVER: dict[str, object] = {
    "REDIS_URL": None,
    "REDIS_HOST": None,
    "REDIS_PORT": None,
    "REDIS_DB": None,
    "REDIS_PARAMS": {},
}


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yields the folder of a temporary crawl, and deletes it, or waits until the keeper of its engine has done so."""
    folder = Path(mkdtemp(prefix="webcrawl-"))
    try:
        yield folder
    finally:
        deadline = time.monotonic() + _END_SECONDS
        while (folder / "engine" / "keeper").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        if not (folder / "engine" / "keeper").exists():
            rmtree(folder, ignore_errors=True)


def isolate(settings: BaseSettings, folder: Path) -> None:
    """Changes settings so that a crawl uses nothing but `folder`, an empty folder.

    On a platform without an embedded engine, the crawl has an id of its own on the server of REDIS_URL, and is deleted
    there when it ends.
    """
    changes = {**_ISOLATED, "DATA_DIR": str(folder)}
    if _has_embedded_engine(folder):
        changes |= _NO_SERVER
    else:
        changes |= {"CRAWL_ID": f"temporary-{uuid.uuid4().hex[:12]}", "SCHEDULER_PERSIST": False}
    for name, value in changes.items():
        settings.set(name, value, priority="cmdline")


def name_file(settings: BaseSettings, url: str) -> None:
    """Lets a crawl read the local file with this URL."""
    settings.set(NAMED_FILE, Request(url).url, priority="cmdline")
    # before all middlewares that send requests to a host
    settings["DOWNLOADER_MIDDLEWARES_BASE"].set(
        "webcrawl.temporary.isolation.LocalFileMiddleware", 0, "cmdline"
    )


def is_temporary(settings: BaseSettings) -> bool:
    """Whether `isolate` has changed these settings."""
    return bool(read(settings, "SCHEDULER") == _SCHEDULER)


def _has_embedded_engine(folder: Path) -> bool:
    """Whether this platform has an embedded engine, whose keeper deletes the folder after its last use."""
    try:
        from webcrawl.engine.embedded import make_temporary, server_binary

        server_binary()
    except (ImportError, CrawlError):
        return False
    make_temporary(folder)
    return True


class LocalFileMiddleware:
    """Reads the file as Scrapy's download handler does. No other `file:` URL has a handler."""

    def __init__(self, url: str, handler: FileDownloadHandler) -> None:
        self._url = url
        self._handler = handler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.settings[NAMED_FILE], build_from_crawler(FileDownloadHandler, crawler))

    async def process_request(self, request: Request) -> Response | None:
        return await self._handler.download_request(request) if request.url == self._url else None
