"""Crawls that a script starts with Scrapy's classes: several in one process, on asyncio and on Twisted's reactor."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis

from tests.crawls import CHECKOUT, NO_NAMES, inherited
from tests.web import LocalWeb, Reply

EXAMPLES = CHECKOUT / "examples" / "scripts"
SITES = ("127.0.1.1", "127.0.1.2")

RUNNER = """
import asyncio, json, os, sys
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.utils.project import get_project_settings

def crawl(runner, settings):
    crawler = runner.create_crawler("broad")
    for name, value in settings.items():
        crawler.settings.set(name, value, priority="cmdline")
    return crawler, runner.crawl(crawler, seeds=sys.argv[1], scope="host")

async def main():
    runner, found = AsyncCrawlerRunner(get_project_settings()), []
    for group in json.loads(sys.argv[2]):
        crawls = [crawl(runner, settings) for settings in group]
        await asyncio.gather(*(task for _, task in crawls))
        found.append([crawler.stats.get_value("finish_reason") for crawler, _ in crawls])
        os.umask(umask := os.umask(0))
        assert umask == int(sys.argv[3]), oct(umask)
    print(json.dumps(found))

asyncio.run(main())
"""


@pytest.fixture
def web(local_web: Callable[..., LocalWeb]) -> LocalWeb:
    web = local_web(*SITES)
    for site in SITES:
        web.put(site, "/", '<a href="/a">a</a>')
        web.put(site, "/a", "the end")
    return web


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of scripts that use the project's settings, in which crawls have no delay."""
    (tmp_path / "quick_settings.py").write_text(
        "from settings.base import *\n"
        f"DOWNLOAD_DELAY = 0\nDNS_SERVERS = ['{NO_NAMES}']\nPROGRESS = 'off'\nLOG_LEVEL = 'WARNING'\n"
    )
    return tmp_path


def run(folder: Path, *words: str) -> str:
    """Runs a Python program in the folder, which must end well; returns what it printed."""
    return ended(folder, *words).stdout


def ended(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={
            **inherited(),
            "SCRAPY_SETTINGS_MODULE": "quick_settings",
            "PYTHONPATH": f"{folder}{os.pathsep}{CHECKOUT}",
        },
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done


def pages(data_dir: Path) -> set[str]:
    with closing(sqlite3.connect(data_dir / "metadata.db")) as database:
        return {url for (url,) in database.execute("SELECT url FROM pages")}


def check_shared(data_dir: Path, urls: list[str]) -> None:
    """Checks that two crawls have stored their pages in one folder, and have used its server."""
    assert pages(data_dir) == {url + path for url in urls for path in ("", "a")}
    # started once
    assert (data_dir / "engine" / "valkey.log").read_text().count("Ready to accept connections") == 1


@pytest.mark.slow
def test_two_crawls_on_twisted_share_a_process_and_a_data_folder(web: LocalWeb, folder: Path) -> None:
    urls = [web.url(site) for site in SITES]
    run(folder, str(EXAMPLES / "crawl_on_twisted.py"), *urls)
    check_shared(folder / "data", urls)


def test_two_crawls_at_once_share_a_process_and_a_data_folder(web: LocalWeb, folder: Path) -> None:
    """Each names itself in its lines of progress."""
    with (folder / "quick_settings.py").open("a") as settings:
        settings.write("PROGRESS = 'plain'\nPROGRESS_INTERVAL = 0.2\n")
    for site in SITES:
        web.put(site, "/a", Reply("slow", delay=1.0))
    urls = [web.url(site) for site in SITES]
    lines = ended(folder, str(EXAMPLES / "crawl_two_sites.py"), *urls).stderr.splitlines()
    check_shared(folder / "data", urls)
    assert {line for line in lines if line.startswith("Crawl ")} == {
        f"Crawl site{number} finished: there is nothing left to crawl." for number in (1, 2)
    }
    progress = [line for line in lines if "/s), " in line and not line.startswith(" ")]
    assert {line.partition(": ")[0] for line in progress} == {"site1", "site2"}


def test_a_program_on_asyncio_crawls_in_turn(web: LocalWeb, folder: Path) -> None:
    urls = [web.url(site) for site in SITES]
    printed = run(folder, str(EXAMPLES / "crawl_in_turn.py"), *urls)
    assert printed.splitlines() == [f"{url} 2" for url in urls]
    assert [pages(folder / f"site{number}") for number in (1, 2)] == [{url, url + "a"} for url in urls]


@pytest.mark.slow
def test_crawls_of_one_program_share_folders_and_servers_in_any_order(
    web: LocalWeb, folder: Path, redis_url: str, valkey: Redis
) -> None:
    groups = [
        # one folder at once, then once more: the folder's server has just ended
        [{"CRAWL_ID": "a"}, {"CRAWL_ID": "b"}],
        [{"CRAWL_ID": "c"}],
        # folders of their own
        [{"DATA_DIR": "one"}, {"DATA_DIR": "two"}],
        # one server; two of the crawls are workers of the same one
        [{"REDIS_URL": redis_url, "DATA_DIR": name, "CRAWL_ID": name[0]} for name in ("x1", "x2", "y1")],
    ]
    os.umask(umask := os.umask(0))
    found = json.loads(run(folder, "-c", RUNNER, web.url(SITES[0]), json.dumps(groups), str(umask)))
    assert found == [["finished"] * len(group) for group in groups]
    url = web.url(SITES[0])
    for name in ("data", "one", "two", "y1"):
        assert pages(folder / name) == {url, url + "a"}
    # each crawl fetched each page once, also the crawl of two workers
    assert web.paths(SITES[0]).count("/a") == 7
