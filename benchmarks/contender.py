"""The contenders of the side-by-side benchmark, and how each is started.

All get the same seeds and the same number of concurrent requests, have no delay, and obey robots.txt. Otherwise each
runs with its own defaults.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.command import ROOT, broad, setting_options
from benchmarks.sites import SCOPE
from webcrawl.config import parts
from webcrawl.engine.embedded import server_binary

VENVS = ROOT / ".bench"

AT_ONCE = 64
"""Concurrent requests; Task says how many of them to one host."""
# The same for all contenders built on Scrapy.
SCRAPY = {"CONCURRENT_REQUESTS": AT_ONCE, "DOWNLOAD_DELAY": 0, "ROBOTSTXT_OBEY": True}
# By default Scrapy logs each page, which is unusual for large crawls.
QUIET = {"LOG_LEVEL": "INFO", "TELNETCONSOLE_ENABLED": False}

# What Scrapy's documentation of broad crawls advises. Requests that wait for their host count as concurrent ones.
POLITE: dict[str, object] = {
    "CONCURRENT_REQUESTS": 1_000,
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    "REACTOR_THREADPOOL_MAXSIZE": 20,
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    "REDIRECT_ENABLED": False,
    "DOWNLOAD_TIMEOUT": 15,
}
SCRAPY_SECONDS = 240
"""Scrapy ends a crawl that takes longer. Its figures are those of the pages until then."""

# The settings that scrapy-redis documents. The queue is in a Valkey that writes nothing to disk.
REDIS: dict[str, object] = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
}

# `full` has the default settings: links, text, duplicates, WARC with gzip, metadata. `links` stores nothing.
FULL: dict[str, object] = {}
STORED: dict[str, object] = {"LINKS": True, "TEXT": "parquet"}
LINKS: dict[str, object] = {"ITEM_PIPELINES": dict.fromkeys(parts.ITEM_PIPELINES)}
CURL = "webcrawl.crawler.download.curl.CurlDownloadHandler"
# fetched by curl_cffi: HTTP/1.1 on the web of HTTP, HTTP/2 on those of HTTPS
LINKS_CURL: dict[str, object] = {**LINKS, "DOWNLOAD_HANDLERS": {"http": CURL, "https": CURL}}


@dataclass(frozen=True, slots=True)
class Task:
    """One crawl from `seeds`, ended after `pages` unless that is 0.

    At most `per_host` requests run at a time to one host, `delay` seconds apart. `home` is an empty folder of the task.
    """

    seeds: list[str]
    pages: int
    per_host: int
    delay: float
    home: Path

    @property
    def scrapy(self) -> dict[str, object]:
        return {
            **SCRAPY,
            "CONCURRENT_REQUESTS_PER_DOMAIN": self.per_host,
            "DOWNLOAD_DELAY": self.delay,
        }


@dataclass(frozen=True, slots=True)
class Contender:
    """`command` makes the command line of a task; `venv` is its folder in VENVS, "" for our own.

    Ours run with the code of `checkout`.
    """

    name: str
    title: str
    command: Callable[[Task], list[str]]
    venv: str = ""
    has_server: bool = False
    checkout: Path = ROOT

    def server(self, home: Path) -> list[str]:
        """The option by which measured.py starts a Valkey beside the contender that writes nothing to disk."""
        if not self.has_server:
            return []
        socket = str(home / "valkey.sock")
        return [
            *("--socket", socket, "--server", str(server_binary()), "--port", "0", "--unixsocket", socket),
            *("--save", "", "--appendonly", "no", "--dir", str(home)),
        ]

    def path(self) -> dict[str, str]:
        """The variable by which another checkout is found before the one that is installed."""
        return {} if self.checkout == ROOT else {"PYTHONPATH": str(self.checkout)}

    def prepare(self) -> None:
        """Creates the venv with the pinned versions, unless it is up to date."""
        if not self.venv:
            return
        folder, wanted = VENVS / self.venv, ROOT / "benchmarks" / "contenders" / f"{self.venv}.txt"
        done = folder / "requirements.txt"
        if done.exists() and done.read_text() == wanted.read_text():
            return
        print(f"Installing {self.title} into {folder.relative_to(ROOT)} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", wanted], check=True)
        done.write_text(wanted.read_text())


def ours(settings: dict[str, object], workers: int = 1) -> Callable[[Task], list[str]]:
    def command(task: Task) -> list[str]:
        own = {**task.scrapy, "DATA_DIR": task.home / "data", "CRAWL_MAX_PAGES": task.pages}
        return broad(",".join(task.seeds), "host", {**own, **settings}, workers)

    return command


def scrapy(venv: str, settings: dict[str, object]) -> Callable[[Task], list[str]]:
    def command(task: Task) -> list[str]:
        own: dict[str, object] = {
            "CLOSESPIDER_PAGECOUNT": task.pages,
            "CLOSESPIDER_TIMEOUT": SCRAPY_SECONDS,
            **(POLITE if task.delay else {}),
        }
        if venv == "scrapy-redis":
            own["REDIS_URL"] = f"unix://{task.home}/valkey.sock"
        return [
            *(str(VENVS / venv / "bin" / "python"), "-m", "scrapy", "runspider"),
            str(ROOT / "benchmarks" / "contenders" / "scrapy_links.py"),
            *("-a", f"seeds={','.join(task.seeds)}", "-a", f"allow={SCOPE}"),
            *setting_options({**task.scrapy, **QUIET, **settings, **own}),
        ]

    return command


def crawlee(task: Task) -> list[str]:
    return [
        str(VENVS / "crawlee" / "bin" / "python"),
        str(ROOT / "benchmarks" / "contenders" / "crawlee_links.py"),
        *(",".join(task.seeds), SCOPE, str(task.pages), str(AT_ONCE)),
    ]


CONTENDERS = {
    contender.name: contender
    for contender in [
        Contender("links", "webcrawl, links", ours(LINKS)),
        Contender("links-curl", "webcrawl, links, curl handler", ours(LINKS_CURL)),
        Contender("full", "webcrawl, full", ours(FULL)),
        Contender("full-stored", "webcrawl, full, links and texts stored", ours(STORED)),
        Contender("links-2", "webcrawl, links, two workers", ours(LINKS, workers=2)),
        Contender("scrapy", "Scrapy, LinkExtractor", scrapy("scrapy", {}), "scrapy"),
        Contender("scrapy-redis", "scrapy-redis", scrapy("scrapy-redis", REDIS), "scrapy-redis", True),
        Contender("crawlee", "Crawlee, ParselCrawler", crawlee, "crawlee"),
    ]
}
