"""Draws docs/pictures/dashboard*.png: the dashboard beside a crawl of the demo and a job of it: `make screenshots`.

Needs playwright and a Chromium, as the tests of the dashboard.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

CHECKOUT = Path(__file__).resolve().parents[2]
PICTURES = CHECKOUT / "docs" / "pictures"
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
SECONDS = 60
WATCHED_SECONDS = 110
"""How long the crawl is watched, so that the plots, jobs and duplicates have something to show."""
SITE = "http://127.0.0.1:8771"
CLOSED = ",".join(f"http://127.0.0.{number}:9/" for number in range(2, 6))
"""Seeds that nobody serves, for the page of dead letters."""
JOB = f"""
name: handbook
cron: "* * * * *"
spider: broad
seeds: [{SITE}/]
arguments: {{scope: host}}
settings: {{CRAWL_MAX_PAGES: 20, DOWNLOAD_DELAY: 1}}
"""
PAGE, HOST = quote(f"{SITE}/copy.html"), quote(SITE)
SHOTS = (
    ("dashboard-jobs", "/jobs", "light", 1280),
    ("dashboard-job", "/jobs/handbook", "dark", 1280),
    ("dashboard-crawls", "/", "light", 1280),
    ("dashboard", "/crawls/broad", "light", 1280),
    ("dashboard-dark", "/crawls/broad", "dark", 1280),
    ("dashboard-narrow", "/crawls/broad", "light", 390),
    ("dashboard-pages", "/crawls/broad/pages", "light", 1280),
    ("dashboard-pages-narrow", "/crawls/broad/pages?status=404", "dark", 390),
    ("dashboard-search", "/crawls/broad/search?words=quiet+garden", "light", 1280),
    ("dashboard-downloads", "/crawls/broad/downloads", "dark", 390),
    ("dashboard-log", "/crawls/broad/log", "light", 1280),
    ("dashboard-start", "/start", "light", 1280),
    ("dashboard-hosts", "/crawls/broad/hosts", "light", 1280),
    ("dashboard-host", f"/crawls/broad/hosts/host?host={HOST}", "light", 1280),
    ("dashboard-url", f"/crawls/broad/url?url={PAGE}", "light", 1280),
    ("dashboard-archive", f"/crawls/broad/url/archive?url={HOST}/", "light", 1280),
    ("dashboard-dead-letters", "/crawls/broad/dead-letters", "light", 1280),
    ("dashboard-duplicates", "/crawls/broad/duplicates", "light", 1280),
)
"""(name, page, colours, width in pixels) of each picture."""


@contextmanager
def dashboard(folder: str) -> Iterator[str]:
    """Runs two workers of a crawl of the demo, a scheduler, and the dashboard; yields the dashboard's address."""
    own = ["-s", f"DATA_DIR={folder}", "-s", "PROGRESS=off"]
    polite = ["-s", "DOWNLOAD_DELAY=3", "-s", "FRONTIER_MAX_ATTEMPTS=1"]
    with ExitStack() as stack:
        shown = scrapy(stack, "dashboard", "--port", "0", *own)
        assert shown.stdout is not None
        url = shown.stdout.readline().split()[1].rstrip("/")
        start(stack, "-m", "webcrawl.demo", *own, *polite)
        time.sleep(10)
        scrapy(stack, "crawl", "broad", "-a", f"seeds={CLOSED}", "-a", "scope=host", *own, *polite)
        file = Path(folder, "job.yaml")
        file.write_text(JOB)
        scrapy(stack, "jobs", "apply", str(file), *own).wait(SECONDS)
        scrapy(stack, "jobs", "run", *own)
        yield url


def make_files(folder: str, url: str, page: Page) -> None:
    """Makes the index of the search, and a file to download."""
    words = ["search", "--update", "-s", f"DATA_DIR={folder}"]
    subprocess.run([sys.executable, "-m", "scrapy", *words], cwd=CHECKOUT, check=True, capture_output=True)
    page.goto(f"{url}/crawls/broad/downloads")
    page.get_by_role("region", name="Pages with their texts").get_by_role("button").click()
    page.get_by_role("region", name="Pages with their texts").get_by_role("link").wait_for(timeout=90_000)


def scrapy(stack: ExitStack, *words: str) -> subprocess.Popen[str]:
    """Starts a command, which ends with the stack."""
    return start(stack, "-m", "scrapy", *words)


def start(stack: ExitStack, *words: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, *words], cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    stack.callback(process.wait, SECONDS)
    stack.callback(process.terminate)
    return process


def draw(page: Page, url: str, name: str, path: str, width: int) -> None:
    """Takes one picture."""
    page.set_viewport_size({"width": width, "height": 600})
    page.goto(url + path)
    if page.locator(".plot").count():
        page.locator(".plot canvas").first.wait_for()
    if "/jobs" in path:  # while an iteration runs, which begins each minute
        page.locator(".progress", has_text="URLs found so far").wait_for(timeout=90_000)
    time.sleep(3)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, dashboard(folder) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        watching = browser.new_page()
        watching.goto(url)
        time.sleep(WATCHED_SECONDS)
        make_files(folder, url, watching)
        for name, path, colours, width in SHOTS:
            page = browser.new_page(color_scheme=colours)
            draw(page, url, name, path, width)
            page.close()
        browser.close()
