"""A hostile web, its finished crawl, and the dashboard beside it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from scrapy.settings import Settings
from scrapy.utils.project import get_project_settings

from tests.crawls import CHECKOUT, NO_NAMES, Crawl, inherited, start_python, until
from tests.web import LocalWeb, Reply
from webcrawl.crawler.crawl_settings import completed
from webcrawl.opened import OpenedCrawl

T = TypeVar("T")
OF_LOOKS = ("color-contrast", "link-in-text-block", "scrollable-region-focusable")
"""The rules of axe-core that depend on colours and on the width of the page."""

HOME, OTHER = "127.0.1.1", "127.0.1.2"
CLOSED = "http://127.0.1.9:9/never"
START_SECONDS = 60.0
ATTACK = "<script>window.attacked = 1</script>\"><img src=x onerror='window.attacked = 2'>{{ 7 * 7 }}"
"""Text that runs a script wherever it is written without escapes."""
ATTACK_PATH = "/q?a=%22%3E%3Cscript%3Ewindow.attacked=3%3C/script%3E&b='onmouseover='window.attacked=4"
STORY = (
    "The keeper of the harbour reads each letter twice before the morning boat leaves the quiet garden. " * 12
)


def narrow(page: Any) -> None:
    """Makes a page in Chromium dark and as narrow as a phone, and waits until nothing sticks out of it."""
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    page.set_viewport_size({"width": 360, "height": 700})
    deadline = time.monotonic() + START_SECONDS
    while (wide := page.evaluate("document.documentElement.scrollWidth")) > 360:
        assert time.monotonic() < deadline, f"{page.url} is {wide} pixels wide"
        time.sleep(0.02)


def until_shown(condition: Callable[[], bool], process: Crawl) -> None:
    """Waits for what a page shows while a process runs; seldom, as each look is a question to the browser."""
    until(condition, process, look_every=0.1)


def hostile_web() -> LocalWeb:
    """Pages whose titles, texts, URLs and headers attack whoever shows them; also duplicates and failures."""
    web = LocalWeb(HOME, OTHER)
    links = [ATTACK_PATH, "/copy", "/near", "/gone", "/moved", "/private/page", CLOSED, web.url(OTHER)]
    home = "".join(f'<a href="{link}">{ATTACK}</a>' for link in links)
    title = ATTACK.replace("<", "&lt;")
    web.put(HOME, "/", f"<title>{title}</title><p>{home}</p><p>{STORY}</p>")
    web.put(
        HOME,
        "/robots.txt",
        Reply("User-agent: *\nDisallow: /private/", headers={"Content-Type": "text/plain"}),
    )
    script = "<script>window.attacked = 5; parent.attacked = 5; top.location = '/attacked'</script>"
    web.put(HOME, ATTACK_PATH, f"<title>{title}</title>{script}<p>{STORY}")
    web.put(HOME, "/q", f"<title>{title}</title>{script}<p>{STORY}")
    web.put(HOME, "/copy", f"<title>copy</title><p>{STORY}</p>")
    web.put(OTHER, "/", f"<title>copy</title><p>{STORY}</p>")
    web.put(HOME, "/near", f"<title>near</title><p>{STORY} And one more word.</p>")
    web.put(HOME, "/gone", Reply(f"<title>{title}</title>", status=404))
    web.put(HOME, "/moved", Reply(status=302, headers={"Location": "/copy", "X-Attack": ATTACK}))
    return web


@dataclass
class Dashboard:
    """A running `scrapy dashboard`."""

    url: str
    process: Crawl

    @classmethod
    def start(
        cls, *options: str, folder: Path, settings: Mapping[str, object], program: str = "scrapy"
    ) -> Self:
        """Starts it at a free port and waits until it answers. `program`: the module of `python -m`."""
        words = ["dashboard", "--port", "0", *options, "-s", f"DNS_SERVERS={NO_NAMES}"]
        words += [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
        output = folder / "dashboard"
        with (
            open("/dev/null", "rb") as null,
            output.with_suffix(".out").open("wb") as out,
            output.with_suffix(".err").open("wb") as err,
        ):
            started = start_python(program, words, CHECKOUT, inherited(), [null, out, err])
            process = Crawl(started, output, folder)
        until = time.monotonic() + START_SECONDS
        while "Dashboard: " not in (text := output.with_suffix(".out").read_text()):
            assert process.process.poll() is None and time.monotonic() < until, process.stderr
            time.sleep(0.02)
        return cls(text.split()[1].rstrip("/"), process)


@dataclass
class CrawledSite:
    """The hostile web, crawled into `data_dir`, and a dashboard of it at `url`."""

    web: LocalWeb
    data_dir: Path
    dashboard: Dashboard
    crawl: str = "broad"

    @property
    def url(self) -> str:
        return self.dashboard.url

    @property
    def summary(self) -> dict[str, Any]:
        return dict(json.loads((self.data_dir / "summary.json").read_text()))

    @property
    def settings(self) -> Settings:
        """The settings of a process that looks at the crawl."""
        settings = get_project_settings()
        settings.set("DATA_DIR", str(self.data_dir), priority="cmdline")
        settings.set("DNS_SERVERS", NO_NAMES, priority="cmdline")
        settings.set("CRAWL_ID", self.crawl, priority="cmdline")
        return completed(settings)

    def look(self, work: Callable[[OpenedCrawl], Awaitable[T]]) -> T:
        """The result of `work` with the opened crawl; in a thread of its own, as this one has a running loop."""
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, self._look(work)).result(START_SECONDS)

    async def _look(self, work: Callable[[OpenedCrawl], Awaitable[T]]) -> T:
        opened = OpenedCrawl(self.settings, self.crawl)
        try:
            await opened.connection.connect()
            assert await opened.connection.adopt_layout()
            return await work(opened)
        finally:
            await opened.close()


def axe_findings(
    page: Any, impacts: Collection[str] = (), rules: Collection[str] = ()
) -> list[tuple[str, str, list[str]]]:
    """Runs axe-core on a page; returns rule, help and the first nodes of each finding, or of those with an impact.

    `rules`: runs only these, and not all.
    """
    from axe_playwright_python.sync_playwright import Axe

    options = {"resultTypes": ["violations"]} | ({"runOnly": [*rules]} if rules else {})
    # to read axe-core takes longer than to run it; most pages are checked twice
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(Axe().axe_script)
    found = page.evaluate("(options) => axe.run(options).then((results) => results.violations)", options)
    return [
        (each["id"], each["help"], [node["html"] for node in each["nodes"]][:3])
        for each in found
        if not impacts or each["impact"] in impacts
    ]
