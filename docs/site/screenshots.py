"""Draws docs/pictures/dashboard*.png, and notes where the parts of each page are: `make screenshots`.

The pictures show a crawl of the demo, with a queue, a worker, a history and a job that are always the same, so that a
test can take them again and compare. Needs playwright and a Chromium, as the tests of the dashboard.
"""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from scrapy.utils.project import get_project_settings
from sqlalchemy import update

from webcrawl.crawler.crawl_settings import completed
from webcrawl.demo import demo_settings, demo_web
from webcrawl.frontier import Candidate, Crawl
from webcrawl.frontier.workers import AllVitals, Vitals, WorkerOutlook
from webcrawl.hosts.costs import Load
from webcrawl.hosts.politeness import Pace
from webcrawl.jobs.records import IterationState
from webcrawl.jobs.store import JobStore
from webcrawl.jobs.tables import iterations
from webcrawl.opened import OpenedCrawl

CHECKOUT = Path(__file__).resolve().parents[2]
PICTURES = CHECKOUT / "docs" / "pictures"
LAYOUT = PICTURES / "dashboard.json"
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
SECONDS = 60
DAY = 86_400.0
QUEUES = (7, 3, 2)
"""The URLs that are queued at each site of the demo."""
WORKER = "demo-1"
SHOTS = (
    ("dashboard-jobs", "/jobs", "light", 1280),
    ("dashboard-job", "/jobs/handbook", "dark", 1280),
    ("dashboard-start", "/start", "light", 1280),
    ("dashboard-crawls", "/", "light", 1280),
    ("dashboard", "/crawls/broad", "light", 1280),
    ("dashboard-dark", "/crawls/broad", "dark", 1280),
    ("dashboard-narrow", "/crawls/broad", "light", 390),
    ("dashboard-pages", "/crawls/broad/pages?order=url", "light", 1280),
    ("dashboard-pages-narrow", "/crawls/broad/pages?order=url&status=404", "dark", 390),
    ("dashboard-search", "/crawls/broad/search?words=quiet+garden", "light", 1280),
    ("dashboard-downloads", "/crawls/broad/downloads", "dark", 390),
    ("dashboard-hosts", "/crawls/broad/hosts", "light", 1280),
    ("dashboard-hosts-narrow", "/crawls/broad/hosts", "light", 390),
    ("dashboard-host", "/crawls/broad/hosts/host?host={host}", "light", 1280),
    ("dashboard-url", "/crawls/broad/url?url={page}", "light", 1280),
    ("dashboard-archive", "/crawls/broad/url/archive?url={host}/", "light", 1280),
    ("dashboard-dead-letters", "/crawls/broad/dead-letters", "light", 1280),
    ("dashboard-duplicates", "/crawls/broad/duplicates", "light", 1280),
    ("dashboard-log", "/crawls/broad/log", "light", 1280),
)
"""(name, page, colours, width in pixels) of each picture."""


@dataclass(frozen=True)
class Scene:
    """A dashboard at `url` and the seeds of its crawl `broad`."""

    url: str
    seeds: Sequence[str]

    def address(self, path: str) -> str:
        """Returns the address of a page, whose path may name a `host`, a `page` and a `job`."""
        host = self.seeds[0].rstrip("/")
        known = {"crawl": "broad", "job": "handbook", "host": quote(host), "page": quote(f"{host}/copy.html")}
        return self.url + path.format(**known)


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Fills a folder beside a dashboard of it."""
    with ExitStack() as stack:
        shown = start("dashboard", "--port", "0", "-s", f"DATA_DIR={folder}")
        stack.callback(shown.wait, SECONDS)
        stack.callback(shown.terminate)
        assert shown.stdout is not None
        url = shown.stdout.readline().split()[1].rstrip("/")
        yield Scene(url, fill(folder, run))


def fill(folder: Path, run: Callable[..., object]) -> Sequence[str]:
    """Crawls the demo into a folder, adds what is always the same, and returns the seeds.

    `run("search", "--update", ...)` runs a command of webcrawl to its end.
    """
    own = ["-s", f"DATA_DIR={folder}", "-s", "PROGRESS=off"]
    with demo_web() as seeds:
        settings = {**demo_settings(), "DOWNLOAD_DELAY": "0.01", "CONCURRENT_REQUESTS": "1"}
        words = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
        run("crawl", "broad", "-a", f"seeds={','.join(seeds)}", "-a", "scope=host", *own, *words)
    run("search", "--update", *own)
    texts = ["--partition", "none", "--text", "-o", f"{folder}/downloads/broad/text"]
    run("export", "--format", "jsonl", *texts, *own)
    add_job(folder, seeds)
    # playwright has a loop in this thread, if it is in use already
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, add_work(folder, seeds)).result(SECONDS)
    return seeds


def run(*words: str) -> None:
    assert start(*words).wait(SECONDS) == 0


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "webcrawl.console", *words],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def add_job(folder: Path, seeds: Sequence[str]) -> None:
    """Stores a job with a past, whose current iteration runs."""
    store = JobStore(f"sqlite:///{folder}/metadata.db")
    due = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    job = {"name": "handbook", "cron": "0 6 * * *", "timezone": "Europe/Paris", "spider": "broad"}
    store.apply([{**job, "seeds": [seeds[0]], "arguments": {"scope": "host"}}], due)
    ended = [IterationState.FINISHED] * 9
    ended[3], ended[6] = IterationState.FAILED, IterationState.STOPPED
    reasons = {IterationState.FAILED: "the disk is full", IterationState.STOPPED: "by an operator"}
    for number, state in enumerate([*ended, IterationState.RUNNING], 1):
        iteration = store.run(job["name"], due - timedelta(days=10 - number))
        values: dict[str, Any] = {
            "state": state,
            "found": 24 + number,
            "processed": 20 + number,
            "crawled": 23,
        }
        values |= {"started": iteration.due, "stuck": int(number == 5), "reason": reasons.get(state)}
        if state is IterationState.RUNNING:
            values |= {"queued": 9}
        else:
            values |= {"ended": iteration.due + timedelta(minutes=2)}
        statement = update(iterations).where(iterations.c.id == iteration.id).values(values)
        store.database.write(lambda connection, statement=statement: connection.execute(statement))
    store.close()


async def add_work(folder: Path, seeds: Sequence[str]) -> None:
    """Adds a queue, a worker and a history to the crawl."""
    settings = get_project_settings()
    settings.set("DATA_DIR", str(folder), priority="cmdline")
    opened = OpenedCrawl(completed(settings), "broad")
    await opened.connection.connect()
    await opened.connection.adopt_layout()
    hosts = [seed.rstrip("/") for seed in seeds]
    queued = [
        Candidate(host, f"/archive/{number}.html", None)
        for host, urls in zip(hosts, QUEUES, strict=True)
        for number in range(urls)
    ]
    await opened.connection.frontier.add(queued)
    engine, keys = opened.connection.engine, opened.connection.keys
    crawl = Crawl(engine, keys, WORKER, DAY)
    await crawl.workers.beat()
    await AllVitals(engine, keys).put(WORKER, vitals(hosts), DAY)
    await crawl.costs.show({hosts[0]: Load(connections=1, unfinished=1), hosts[1]: Load(connections=1)})
    await engine.change(keys.own("samples:hour"), "DEL")
    await engine.change(keys.own("samples:hour"), "RPUSH", *samples(pages=66, queued=sum(QUEUES)))
    await opened.close()


def vitals(hosts: Sequence[str]) -> Vitals:
    """Returns what a worker of the crawl reports."""
    outlook = WorkerOutlook(
        {"politeness": 0.8, "network": 0.2},
        [(hosts[0], QUEUES[0], 3.0)],
        time.time() + 300,
        "as its hosts are asked",
    )
    paces = {host: Pace(3.0, "settings", 0.0, "", 0) for host in hosts}
    slowest = list(zip(hosts, (2.0, 0.012, 0.008), strict=True))
    return Vitals(time.time() - 240, 180_000_000, 2, 0, 2, 1, 66, 0.3, slowest, paces, outlook=outlook)


def samples(pages: int, queued: int, number: int = 24) -> list[str]:
    """Returns samples of a crawl that ends with these figures: one for each ten seconds until now."""
    now, texts = time.time(), []
    for sample in range(number):
        share = (sample + 0.6 * math.sin(sample)) / (number - 1)
        fetched, waiting = round(pages * share), queued + round((1 - share) * 50 * min(1.0, sample / 4))
        when = int((now - 10 * (number - 1 - sample)) * 1000)
        figures = (
            max(0, fetched),
            0,
            (sample + 1) // 8,
            int(sample > 12),
            1,
            waiting,
            2,
            min(3, sample),
            1,
            1,
        )
        texts.append(" ".join(map(str, (when, *figures))))
    return texts


ADD_STYLE = """(css) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  document.adoptedStyleSheets.push(sheet);
}"""
PARTS = """() => [...document.querySelectorAll(
  "header, main, nav[aria-label], h1, h2, form[aria-label], .card, .figures, .plot, .scroll, iframe, .empty"
)].map((part) => {
  const box = part.getBoundingClientRect();
  const heading = part.matches(".card, .plot") && part.querySelector("h2, figcaption span");
  const named = part.matches("h1, h2") ? part : heading;
  const name = part.ariaLabel || (named && named.textContent) || "";
  return {
    name: `${part.localName} ${name.replace(/\\d+/g, "0").trim()}`.trim(),
    box: [box.x, box.y + scrollY, box.width, box.height].map(Math.round),
  };
}).filter((part) => part.box[2] && part.box[3])"""
"""Finds the parts of a page that can be seen: a name without numbers, and a box in pixels: x, y, width and height."""


def shoot(
    browser: Any, address: str, colours: str, width: int, path: Path, style: str = ""
) -> list[dict[str, Any]]:
    """Takes a picture of a page as a PNG file; returns the names and boxes of its parts. `style`: CSS to add."""
    page = browser.new_page(
        color_scheme=colours, reduced_motion="reduce", viewport={"width": width, "height": 600}
    )
    page.goto(address)
    if page.locator(".plot:visible").count():
        page.locator(".plot canvas").last.wait_for()
    if page.locator("iframe").count():
        page.frame_locator("iframe").locator("h1").wait_for()
    if style:
        page.evaluate(ADD_STYLE, style)
    page.screenshot(path=path, full_page=True)
    parts: list[dict[str, Any]] = page.evaluate(PARTS)
    page.close()
    return parts


def main() -> None:
    from playwright.sync_api import sync_playwright

    layout = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        scene(Path(folder)) as shown,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, path, colours, width in SHOTS:
            layout[name] = shoot(browser, shown.address(path), colours, width, PICTURES / f"{name}.png")
        browser.close()
    # a line for each part, so that a change can be read
    pages = (
        f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, parts)) + "]"
        for name, parts in layout.items()
    )
    LAYOUT.write_text("{" + ",\n".join(pages) + "}\n")


if __name__ == "__main__":
    main()
