"""Draws docs/pictures/dashboard*.png: the dashboard beside a real crawl of the demo: `make screenshots`.

Needs playwright and a Chromium, as the tests of the dashboard.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

CHECKOUT = Path(__file__).resolve().parents[2]
PICTURES = CHECKOUT / "docs" / "pictures"
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
SECONDS = 60
WATCHED_SECONDS = 35
"""How long the crawl is watched, so that the plots have something to show."""
SHOTS = (
    ("dashboard-crawls", "/", "light", 1280),
    ("dashboard", "/crawls/broad", "light", 1280),
    ("dashboard-dark", "/crawls/broad", "dark", 1280),
    ("dashboard-narrow", "/crawls/broad", "light", 390),
)
"""(name, page, colours, width in pixels) of each picture."""


@contextmanager
def dashboard(folder: str) -> Iterator[str]:
    """Runs a crawl of the demo and the dashboard beside it; yields the dashboard's address."""
    command = [sys.executable, "-m", "scrapy", "dashboard", "--port", "0", "-s", f"DATA_DIR={folder}"]
    shown = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    demo = [sys.executable, "-m", "webcrawl.demo", "--workers", "2", "-s", f"DATA_DIR={folder}"]
    demo += ["-s", "DOWNLOAD_DELAY=1.5", "-s", "PROGRESS=off"]
    crawl = subprocess.Popen(demo, cwd=CHECKOUT, stdout=subprocess.DEVNULL)
    try:
        assert shown.stdout is not None
        yield shown.stdout.readline().split()[1].rstrip("/")
    finally:
        for process in (crawl, shown):
            process.terminate()
            process.wait(SECONDS)


def draw(page: Page, url: str, name: str, path: str, width: int) -> None:
    """Takes one picture."""
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(url + path)
    page.locator(".plot canvas").first.wait_for()
    time.sleep(3)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, dashboard(folder) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        watching = browser.new_page()
        watching.goto(url)
        time.sleep(WATCHED_SECONDS)
        for name, path, colours, width in SHOTS:
            page = browser.new_page(color_scheme=colours)
            draw(page, url, name, path, width)
            page.close()
        browser.close()
