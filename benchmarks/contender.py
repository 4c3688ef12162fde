"""The contenders of the side-by-side benchmark, and how each is started.

All get the same seeds and the same number of concurrent requests, have no delay, and obey robots.txt. Otherwise each
runs with its own defaults.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.command import ROOT, broad, setting_options
from benchmarks.sites import SCOPE
from webcrawl.config import parts
from webcrawl.engine.embedded import server_binary

PEERS = ROOT / ".bench"
"""Each folder has what one contender needs."""
REFERENCE = "c590cf8"
"""An earlier commit, which runs in the same turns: many small costs since then are a large one together."""
_ENTRIES = "scrapy_webcrawl.egg-info"
PROGRAMS = ROOT / "benchmarks" / "contenders"

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
        return {**SCRAPY, "CONCURRENT_REQUESTS_PER_DOMAIN": self.per_host, "DOWNLOAD_DELAY": self.delay}


@dataclass(frozen=True, slots=True)
class Contender:
    """`command` makes the command line of a task; `peer` is its folder in PEERS, "" for our own.

    `needs` are programs that must be there. The first of them runs with each line of `install` in the folder of the
    peer, which has a copy of its files in PROGRAMS. Without `needs`, the folder is a virtual environment. Ours run with
    the code of `checkout`, into which `prepare` clones `revision`.
    """

    name: str
    title: str
    command: Callable[[Task], list[str]]
    peer: str = ""
    has_server: bool = False
    needs: tuple[str, ...] = ()
    install: tuple[str, ...] = ()
    checkout: Path = ROOT
    revision: str = ""

    def words(self, task: Task) -> list[str]:
        """The command line of a task; pipelines that are left out have the names of the checkout."""
        words = self.command(task)
        if self.checkout == ROOT:
            return words
        left_out = f"ITEM_PIPELINES={_pipelines(self.checkout)}"
        return [left_out if word.startswith("ITEM_PIPELINES=") else word for word in words]

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

    def prepare(self) -> bool:
        """Installs the pinned versions, unless that was done; if a program is missing, prints it and returns False."""
        if missing := [program for program in self.needs if not shutil.which(program)]:
            print(f"{self.title} is not run: there is no {' and no '.join(missing)}", flush=True)
            return False
        if self.revision and not (self.checkout / _ENTRIES).exists():
            _check_out(self.revision, self.checkout)
        folder, requirements = PEERS / self.peer, PROGRAMS / f"{self.peer}.txt"
        steps: list[Sequence[str | Path]] = [(*self.needs[:1], *step.split()) for step in self.install]
        if self.peer and not self.needs:
            pip = (folder / "bin" / "python", "-m", "pip", "install", "--quiet")
            steps = [(sys.executable, "-m", "venv", folder), (*pip, "-r", requirements)]
        sources = sorted(PROGRAMS.glob(f"{self.peer}*"))
        wanted = "\n".join([*self.install, *(path.read_text() for path in sources)])
        done = folder / "installed"
        if not steps or (done.exists() and done.read_text() == wanted):
            return True
        print(f"Installing {self.title} into {folder.relative_to(ROOT)} ...", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for source in sources:
            shutil.copy(source, folder)
        for step in steps:
            subprocess.run(step, cwd=folder, check=True)
        done.write_text(wanted)
        return True


def _check_out(revision: str, folder: Path) -> None:
    """Clones a commit; its entry points are found before those that are installed, because they have the same name."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    subprocess.run(["git", "checkout", "--quiet", revision], cwd=folder, check=True)
    subprocess.run([sys.executable, "setup.py", "--quiet", "egg_info"], cwd=folder, check=True)
    next(folder.glob("*.egg-info")).rename(folder / _ENTRIES)


@functools.cache
def _pipelines(checkout: Path) -> str:
    """The value of ITEM_PIPELINES that leaves out all pipelines of a checkout, as its own benchmark knows them."""
    asked = "import json; from benchmarks.contender import LINKS; print(json.dumps(LINKS['ITEM_PIPELINES']))"
    asking = [sys.executable, "-c", asked]
    return subprocess.run(asking, cwd=checkout, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def ours(settings: dict[str, object], workers: int = 1) -> Callable[[Task], list[str]]:
    def command(task: Task) -> list[str]:
        own = {**task.scrapy, "DATA_DIR": task.home / "data", "CRAWL_MAX_PAGES": task.pages}
        return broad(",".join(task.seeds), "host", {**own, **settings}, workers)

    return command


def scrapy(peer: str, settings: dict[str, object]) -> Callable[[Task], list[str]]:
    def command(task: Task) -> list[str]:
        own: dict[str, object] = {
            "CLOSESPIDER_PAGECOUNT": task.pages,
            "CLOSESPIDER_TIMEOUT": SCRAPY_SECONDS,
            **(POLITE if task.delay else {}),
        }
        if peer == "scrapy-redis":
            own["REDIS_URL"] = f"unix://{task.home}/valkey.sock"
        python, spider = "{peers}/" + peer + "/bin/python", "{programs}/scrapy_links.py"
        words = python, "-m", "scrapy", "runspider", spider, "-a", "seeds={seeds}", "-a", "allow={scope}"
        return [*program(*words)(task), *setting_options({**task.scrapy, **QUIET, **settings, **own})]

    return command


def program(*words: str) -> Callable[[Task], list[str]]:
    """The command line of a program of PROGRAMS or PEERS: words with fields of the task in braces."""

    def command(task: Task) -> list[str]:
        fields = {**asdict(task), "seeds": ",".join(task.seeds), "peers": PEERS, "programs": PROGRAMS}
        return [word.format(**fields, scope=SCOPE, at_once=AT_ONCE) for word in words]

    return command


_LIMITS = ("{seeds}", "{scope}", "{pages}", "{at_once}")
_DELAYS = ("{per_host}", "{delay}")
_COLLY = ("{peers}/colly/links", *_LIMITS, *_DELAYS)
_SPIDER_RS = ("node", "{peers}/spider/spider_links.mjs", "{seeds}", "{pages}", "{delay}")
_WGET2 = program(
    "wget2", "--quiet", "--recursive", "--level=inf", "--max-threads={at_once}", "--delete-after"
)
_CRAWLEE = program("{peers}/crawlee/bin/python", "{programs}/crawlee_links.py", *_LIMITS)
_SCRAPLING = program("{peers}/scrapling/bin/python", "{programs}/scrapling_links.py", *_LIMITS, *_DELAYS)
_PAGES = "{home}/pages.jsonl"


def wget2(task: Task) -> list[str]:
    return [*_WGET2(task), f"--directory-prefix={task.home}", f"--wait={task.delay}", *task.seeds]


COLLY: dict[str, Any] = {
    "peer": "colly",
    "needs": ("go",),
    "install": ("mod init links", "get github.com/gocolly/colly/v2@v2.3.0", "build -o links ."),
}
EARLIER: dict[str, Any] = {"needs": ("git",), "checkout": PEERS / REFERENCE, "revision": REFERENCE}
SPIDER_RS: dict[str, Any] = {
    "peer": "spider",
    "needs": ("npm", "node"),
    "install": ("install --no-fund --no-audit @spider-rs/spider-rs@0.0.157",),
}

CONTENDERS = {
    contender.name: contender
    for contender in [
        Contender("links", "webcrawl, links", ours(LINKS)),
        Contender("links-curl", "webcrawl, links, curl handler", ours(LINKS_CURL)),
        Contender("full", "webcrawl, full", ours(FULL)),
        Contender("full-stored", "webcrawl, full, links and texts stored", ours(STORED)),
        Contender("links-reference", f"webcrawl at {REFERENCE}, links", ours(LINKS), **EARLIER),
        Contender("full-reference", f"webcrawl at {REFERENCE}, full", ours(FULL), **EARLIER),
        Contender("links-2", "webcrawl, links, two workers", ours(LINKS, workers=2)),
        Contender("scrapy", "Scrapy, LinkExtractor", scrapy("scrapy", {}), "scrapy"),
        Contender("scrapy-redis", "scrapy-redis", scrapy("scrapy-redis", REDIS), "scrapy-redis", True),
        Contender("crawlee", "Crawlee, ParselCrawler", _CRAWLEE, "crawlee"),
        Contender("scrapling", "Scrapling", _SCRAPLING, "scrapling"),
        Contender("colly", "Colly, links", program(*_COLLY, ""), **COLLY),
        Contender("colly-full", "Colly, pages, texts and links as JSON", program(*_COLLY, _PAGES), **COLLY),
        Contender("spider", "spider-rs, links", program(*_SPIDER_RS, ""), **SPIDER_RS),
        Contender(
            "spider-full", "spider-rs, pages and links as JSON", program(*_SPIDER_RS, _PAGES), **SPIDER_RS
        ),
        Contender("wget2", "wget2", wget2, "wget2", needs=("wget2",)),
    ]
}
