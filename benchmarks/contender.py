"""Who takes part in the side-by-side benchmark, and how each is started.

All get the same seeds, the same number of requests at once, no delay between them, and obey robots.txt. Beyond that
each runs with its own defaults.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.sites import SCOPE
from webcrawl.engine.embedded import server_binary

ROOT = Path(__file__).resolve().parent.parent
VENVS = ROOT / ".bench"

AT_ONCE = 64
"""Requests under way at a time; Task says how many of them to one host."""
# The same for all that are built on Scrapy.
SCRAPY = {"CONCURRENT_REQUESTS": AT_ONCE, "DOWNLOAD_DELAY": 0, "ROBOTSTXT_OBEY": True}
# Scrapy logs each page by default: nobody runs a large crawl so.
QUIET = {"LOG_LEVEL": "INFO", "TELNETCONSOLE_ENABLED": False}

# What the documentation of scrapy-redis says to set. The queue is in a Valkey that writes nothing to disk.
REDIS: dict[str, object] = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
}

# `full` is what a user gets: links, text, exact and near-duplicates, WARC with gzip, metadata. `links` stores nothing.
FULL: dict[str, object] = {}
LINKS: dict[str, object] = {
    "ITEM_PIPELINES": {
        "pipelines.checksum.ChecksumPipeline": None,
        "pipelines.html.HtmlPipeline": None,
        "pipelines.near_duplicates.NearDuplicatesPipeline": None,
        "pipelines.warc.WarcPipeline": None,
        "pipelines.metadata.MetadataPipeline": None,
    }
}


@dataclass(frozen=True, slots=True)
class Task:
    """One crawl: from `seeds`, ended after `pages` when that is not 0, with at most `per_host` requests at a
    time to one host, and with `home` as an empty folder of its own.
    """

    seeds: list[str]
    pages: int
    per_host: int
    home: Path

    @property
    def scrapy(self) -> dict[str, object]:
        return {**SCRAPY, "CONCURRENT_REQUESTS_PER_DOMAIN": self.per_host}


@dataclass(frozen=True, slots=True)
class Contender:
    """`command` makes the command line of a task; `venv` is the folder of VENVS that it needs, "" for our own."""

    name: str
    title: str
    command: Callable[[Task], list[str]]
    venv: str = ""
    has_server: bool = False

    def server(self, home: Path) -> list[str]:
        """What measured.py is told of the Valkey that it starts beside the contender: nothing written to disk."""
        if not self.has_server:
            return []
        socket = str(home / "valkey.sock")
        return [
            *("--socket", socket, "--server", str(server_binary()), "--port", "0", "--unixsocket", socket),
            *("--save", "", "--appendonly", "no", "--dir", str(home)),
        ]

    def prepare(self) -> None:
        """Make the venv with the pinned versions, unless it is there and up to date."""
        if not self.venv:
            return
        folder, wanted = VENVS / self.venv, ROOT / "benchmarks" / "contenders" / f"{self.venv}.txt"
        done = folder / "requirements.txt"
        if done.exists() and done.read_text() == wanted.read_text():
            return
        print(f"Installing {self.title} into {folder.relative_to(ROOT)} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip: list[str | Path] = [
            folder / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        subprocess.run([*pip, "-r", wanted], check=True)
        done.write_text(wanted.read_text())


def options(settings: dict[str, object]) -> list[str]:
    """Settings as options of Scrapy's command line."""
    said = []
    for name, value in settings.items():
        said += ["-s", f"{name}={json.dumps(value) if isinstance(value, dict) else value}"]
    return said


def ours(settings: dict[str, object], workers: int = 1) -> Callable[[Task], list[str]]:
    def command(task: Task) -> list[str]:
        verb = ["workers", str(workers), "broad"] if workers > 1 else ["crawl", "broad"]
        # links between addresses of this machine are refused unless the operator says otherwise
        own = {
            "DATA_DIR": task.home / "data",
            "CRAWL_MAX_PAGES": task.pages,
            "ALLOWED_NETWORKS": "127.0.0.0/8",
        }
        return [
            *(
                sys.executable,
                "-m",
                "scrapy",
                *verb,
                "-a",
                f"seeds={','.join(task.seeds)}",
                "-a",
                "scope=host",
            ),
            *options({**task.scrapy, **own, **settings}),
        ]

    return command


def scrapy(venv: str, settings: dict[str, object]) -> Callable[[Task], list[str]]:
    def command(task: Task) -> list[str]:
        own: dict[str, object] = {"CLOSESPIDER_PAGECOUNT": task.pages}
        if venv == "scrapy-redis":
            own["REDIS_URL"] = f"unix://{task.home}/valkey.sock"
        return [
            *(str(VENVS / venv / "bin" / "python"), "-m", "scrapy", "runspider"),
            str(ROOT / "benchmarks" / "contenders" / "scrapy_links.py"),
            *("-a", f"seeds={','.join(task.seeds)}", "-a", f"allow={SCOPE}"),
            *options({**task.scrapy, **QUIET, **settings, **own}),
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
        Contender("full", "webcrawl, full", ours(FULL)),
        Contender("links-2", "webcrawl, links, two workers", ours(LINKS, workers=2)),
        Contender("scrapy", "Scrapy, LinkExtractor", scrapy("scrapy", {}), "scrapy"),
        Contender("scrapy-redis", "scrapy-redis", scrapy("scrapy-redis", REDIS), "scrapy-redis", True),
        Contender("crawlee", "Crawlee, ParselCrawler", crawlee, "crawlee"),
    ]
}
