"""`scrapy reparse` with a spider of a project: a callback, and a run that was killed."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.crawl.conftest import Project, copied_project
from tests.crawl.reparsing import differences, forget_reading, reparse, rows, summary
from tests.crawls import Crawl, items_of, scrapy
from tests.web import LocalWeb

SITE = "127.0.1.1"
SPIDER = """
from webcrawl.spiders.base import BroadSpider
from scrapy import Request


class ShopSpider(BroadSpider):
    name = "shop"

    def parse(self, response):
        yield from super().parse(response)
        yield Request(response.urljoin("/next"), cb_kwargs={"a": 1})
        with open(self.seen, "a") as file:
            file.write(response.url + "\\n")

    async def parse_offer(self, response):
        yield {"offer": response.url, "type": response.headers["Content-Type"].decode()}
        await self.crawler.engine.download_async(Request(response.urljoin("/more")))
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalWeb, Project, Path]]:
    """A web of 200 pages and its crawl by the spider `shop`; tests leave its rows as they were."""
    folder = tmp_path_factory.mktemp("shop")
    project = copied_project(folder / "project")
    project.add_spider("shop", SPIDER)
    with LocalWeb(SITE) as web:
        for number in range(200):
            text = f"<title>{number}</title><p>offer {number}<a href=/{number + 1}>next</a>"
            web.put(SITE, f"/{number}", text)
        web.put(SITE, "/", "".join(f"<a href=/{number}>{number}</a>" for number in range(200)))
        crawl = Crawl.start(
            "shop",
            [web.url(SITE)],
            folder=folder,
            data_dir=folder / "data",
            project=project.folder,
            arguments={"seen": folder / "crawled"},
            CRAWL_MAX_PAGES=301,
        )
        yield web, project, crawl.wait().data_dir


def test_a_killed_reparse_goes_on_and_reads_no_finished_page_again(
    shop: tuple[LocalWeb, Project, Path], tmp_path: Path
) -> None:
    _, project, data_dir = shop
    before = rows(data_dir)
    forget_reading(data_dir)
    seen = tmp_path / "seen"
    words = ["reparse", "shop", "-a", f"seen={seen}", "--processes", "2", "-s", f"DATA_DIR={data_dir}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy", *words, "-s", "CONCURRENT_ITEMS=1"],
        cwd=project.folder,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    (plan,) = wait_for(
        lambda: list((data_dir / "reparse").glob("????????????.db")) if seen.exists() else [], process
    )
    done = wait_for(lambda: finished(plan), process)
    # it must not end before the other one begins
    suspend([process.pid, *children(process.pid)], data_dir / "metadata.db")
    other = scrapy(*words[:4], "--pipeline", "HtmlPipeline", *words[6:], cwd=project.folder, status=1)
    assert (other.returncode, "another reparse is running" in other.stderr) == (1, True), other.stderr
    for pid in [*children(process.pid), process.pid]:
        os.kill(pid, signal.SIGKILL)
    process.wait(60)
    # the kernel may take a moment to end the killed ones
    deadline = time.monotonic() + 60
    while (
        first := scrapy(*words, cwd=project.folder, timeout=120)
    ).returncode and time.monotonic() < deadline:
        assert "its processes have not ended yet" in first.stderr
    assert first.returncode == 0, first.stderr
    assert "Finished at" in first.stdout
    read = Counter(seen.read_text().split())
    assert all(read[url] == 1 for url in done)
    assert sum(read.values()) >= len(before)
    assert differences(before, rows(data_dir)) == []
    # --again reads all of them again
    reparse(data_dir, "-a", f"seen={seen}", "--again", spider="shop", cwd=project.folder)
    assert sum(Counter(seen.read_text().split()).values()) == sum(read.values()) + len(before)


def wait_for(look: Callable[[], Any], process: subprocess.Popen[bytes]) -> Any:
    deadline = time.monotonic() + 60
    while not (found := look()):
        assert process.poll() is None, process.stderr and process.stderr.read().decode()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def suspend(pids: Sequence[int], database: Path) -> None:
    """Suspends processes, but not while one of them has the database locked: others would wait for it."""
    deadline = time.monotonic() + 60
    while True:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        with (
            closing(sqlite3.connect(database, timeout=0.2)) as connection,
            suppress(sqlite3.OperationalError),
        ):
            connection.execute("BEGIN IMMEDIATE")
            return
        assert time.monotonic() < deadline
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.01)


def finished(plan: Path) -> list[str]:
    with closing(sqlite3.connect(plan)) as database:
        return [url for (url,) in database.execute("SELECT url FROM work WHERE done")]


def test_a_callback_makes_items_of_chosen_pages_and_sends_nothing(
    shop: tuple[LocalWeb, Project, Path], tmp_path: Path
) -> None:
    web, project, data_dir = shop
    requests = len(web.hits)
    offers = tmp_path / "offers.jsonl"
    words = ("--where", "title LIKE '12_'", "--callback", "parse_offer", "-O", str(offers))
    told = summary(data_dir, *words, "-a", "seen=none", spider="shop", cwd=project.folder)
    assert sorted(item["offer"].rpartition("/")[2] for item in items_of(offers)) == [
        str(number) for number in range(120, 130)
    ]
    assert (told["pages"], told["rows"], told["failed"]) == (10, 0, 10)
    assert set(told["failures"].values()) == {
        f"IgnoreRequest: scrapy reparse sends no request: {web.url(SITE, '/more')}"
    }
    assert len(web.hits) == requests
    refused = reparse(data_dir, "--callback", "none", spider="shop", cwd=project.folder, code=2)
    assert "has no method 'none'" in refused.stderr
    assert told["counts"]["items.dict"] == 10
