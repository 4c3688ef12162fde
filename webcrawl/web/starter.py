"""Starts crawls as processes of this machine, in the project of the dashboard, which they outlive."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from shlex import quote

from scrapy.settings import Settings

from webcrawl.config import data_dir
from webcrawl.config.passwords import without_passwords, without_secrets
from webcrawl.config.private_files import given_umask
from webcrawl.config.program import program
from webcrawl.crawler.crawl_options import private_options
from webcrawl.crawler.url_arguments import SPIDER, seeds_of
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import CrawlError, StoreError, brief
from webcrawl.jobs.crawls import JobCrawls, as_text
from webcrawl.jobs.definition import Definition
from webcrawl.web.crawls import Crawls
from webcrawl.web.overview import overview

_MOST = 8
"""The most processes at a time: a form must not bring the machine down."""
_OUTPUT_END = 4096
_GROUP_READS = 0o040
_IN_ORDER = (0, 3)
"""The exit statuses of a crawl that ended in order, the second one with findings such as broken links."""


class CrawlStarter:
    """Checks and starts crawls as `scrapy crawl` does. `given`: the options -s of the dashboard, which crawls get too.

    `project`: the settings of the project with these options, before add-ons complete them.
    """

    def __init__(self, project: Settings, given: Sequence[str] = ()) -> None:
        self._project = project
        self._given = dict(setting.partition("=")[::2] for setting in given)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    @cached_property
    def _crawls(self) -> JobCrawls:
        return JobCrawls(self._project.copy())

    @property
    def folder(self) -> Path:
        """The folder in which the crawls start."""
        return Path.cwd()

    def spiders(self) -> list[str]:
        """Returns the names of the project's spiders; loads them, which blocks. Raises StoreError if that fails."""
        try:
            with self._lock:
                return self._crawls.spiders()
        except (ImportError, SyntaxError) as error:
            raise StoreError(f"the spiders of the project cannot be loaded: {brief(error)}") from error

    def check(self, definition: Definition) -> None:
        """Raises WrongJob for a crawl or job that could not run; blocks."""
        with self._lock:
            self._crawls.check(definition)

    def command(self, crawl: str, definition: Definition) -> str:
        """Returns the command line that does the same in a terminal, without secrets."""
        arguments, seeds = without_secrets(definition.arguments), definition.seeds
        begin = [definition.spider]
        if seeds and seeds.urls and definition.spider == SPIDER:
            begin = list(seeds.urls)
        elif seeds and not seeds.url:
            arguments["seeds"] = seeds_of(seeds.urls)[0] if seeds.urls else f"@{seeds.file}"
        words = [program(), "crawl", *begin]
        if scope := arguments.pop("scope", ""):
            words += ["--scope", scope]
        for name, text in arguments.items():
            words += ["-a", f"{name}={text}"]
        words += ["--crawl", crawl]
        for name, value in without_secrets({**self._given, **definition.settings}).items():
            words += _option(name, as_text(value)) if name != "CRAWL_ID" else []
        return " ".join(map(quote, words))

    def output(self, crawl: str) -> Path:
        """Returns the file with what a crawl that was started here has printed last; its log is beside it."""
        return data_dir(self._project).absolute() / "logs" / f"{crawl}.out"

    def is_running(self, crawl: str) -> bool:
        """Returns whether the process of a crawl that was started here runs."""
        process = self._processes.get(crawl)
        return process is not None and process.poll() is None

    def failure(self, crawl: str) -> str:
        """Returns how the process of a crawl failed, with the last line that it printed; "" if it did not."""
        process = self._processes.get(crawl)
        code = process and process.poll()
        if code is None or code in _IN_ORDER:
            return ""
        with self.output(crawl).open("rb") as output:
            output.seek(0, os.SEEK_END)
            output.seek(max(0, output.tell() - _OUTPUT_END))
            lines = output.read().decode(errors="replace").strip().splitlines()
        last = without_passwords(lines[-1]) if lines else "it has printed nothing"
        return brief(f"the crawl ended with exit status {code}: {last}")

    def start(self, crawl: str, definition: Definition) -> None:
        """Starts a crawl; raises StoreError if it runs, too many run, or the machine refuses."""
        urls = definition.seeds.urls if definition.seeds else ()
        arguments = {**definition.arguments, **({"seeds": seeds_of(urls)[0]} if urls else {})}
        settings = {**self._given, **definition.settings, "CRAWL_ID": crawl, "PROGRESS": "off"}
        with self._lock:
            if self.is_running(crawl):
                raise StoreError(f"crawl {crawl!r} is running")
            if sum(process.poll() is None for process in self._processes.values()) >= _MOST:
                raise StoreError(
                    f"{_MOST} crawls that were started here are running: stop one, or start this one in a terminal"
                )
            words = [sys.executable, "-m", "scrapy", "crawl", definition.spider, "-s", f"CRAWL_ID={crawl}"]
            try:
                process = _detached(words, self.output(crawl), private_options(settings, arguments))
            except OSError as error:
                raise StoreError(f"the crawl cannot be started: {error.strerror}") from error
            self._processes[crawl] = process
        # otherwise it would stay in the list of processes after its end
        threading.Thread(target=process.wait, daemon=True).start()


def _detached(words: Sequence[str], path: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Starts a process that no signal to this process or its terminal reaches, with its output in the file `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # for the owner, and for the group if it may read DATA_DIR
    mode = 0o600 | path.parent.parent.stat().st_mode & _GROUP_READS
    output = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CREAT | os.O_NOFOLLOW, mode)
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            umask=given_umask(),
            env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
        )
    finally:
        os.close(output)


def _option(name: str, text: str) -> list[str]:
    if name == "DATA_DIR":
        return ["-d", text]
    return ["--max-pages", text] if name == "CRAWL_MAX_PAGES" else ["-s", f"{name}={text}"]


async def state_of(crawls: Crawls, crawl: str, *, alive: bool = False) -> str | None:
    """Returns the state of a crawl; None if there is none, or if it must be `alive` and is not."""
    with suppress(*UNAVAILABLE, CrawlError):
        opened = await crawls.opened(crawl)
        if opened is not None:
            now = await overview(opened.connection.crawl, opened.connection.frontier)
            return now.state if now.is_alive or not alive else None
    return None


async def has_begun(crawls: Crawls, starter: CrawlStarter, crawl: str, seconds: float) -> bool:
    """Waits until the engine knows the crawl, and a worker of it is alive or has ended in order."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended = not starter.is_running(crawl)
        if ended and starter.failure(crawl):
            return False
        if await state_of(crawls, crawl, alive=not ended):
            return True
        if ended:
            return False
        await asyncio.sleep(0.2)
    return False
