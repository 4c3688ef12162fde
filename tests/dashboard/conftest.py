"""Fixtures of the dashboard's tests: one Chromium, one crawled site with its dashboard, and more dashboards."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from tests.crawls import CHECKOUT, TRUSTED, Crawl, inherited, run_python
from tests.dashboard.site import CLOSED, HOME, OTHER, CrawledSite, Dashboard, axe_findings, hostile_web

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
ONE_RENDERER = [
    "--no-sandbox",
    "--in-process-gpu",
    "--renderer-process-limit=1",
    "--disable-site-isolation-trials",
]
"""A process for all pages: to start one for each test takes a tenth of its time."""
PROGRAM = "webcrawl.console"
_SERIOUS = ("serious", "critical")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrawledSite]:
    """The hostile web, crawled once, and its dashboard; tests may act on it, but leave the crawl `broad` as it was."""
    folder = tmp_path_factory.mktemp("site")
    with hostile_web() as web, ExitStack() as stack:
        dashboard = Dashboard.start(folder=folder, settings={"DATA_DIR": folder / "data"})
        stack.callback(dashboard.process.kill)
        crawl = Crawl.start(
            "broad",
            [web.url(HOME), web.url(OTHER), CLOSED],
            folder=folder,
            data_dir=folder / "data",
            FRONTIER_MAX_ATTEMPTS=1,
            LINKS=True,
            USER_AGENT="token=secret (+https://me:password@example.org/)",
        )
        stack.callback(crawl.kill)
        crawl.wait()
        yield CrawledSite(web, folder / "data", dashboard)


@pytest.fixture(scope="session")
def screenshots() -> Any:
    """The script that takes the pictures of the documentation."""
    spec = spec_from_file_location("screenshots", CHECKOUT / "docs" / "site" / "screenshots.py")
    assert spec and spec.loader
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def start_dashboard(tmp_path: Path) -> Iterator[Callable[..., Dashboard]]:
    """Starts `scrapy dashboard`: `start_dashboard("--read-only", REDIS_URL=redis_url)`."""
    with ExitStack() as stack:

        def start(*options: str, data_dir: Path = tmp_path / "data", **settings: object) -> Dashboard:
            folder = tmp_path / f"dashboard{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            dashboard = Dashboard.start(*options, folder=folder, settings={"DATA_DIR": data_dir, **settings})
            stack.callback(dashboard.process.kill)
            return dashboard

        yield start


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """One browser for all tests here; tests open their pages in contexts of their own.

    While it is open the thread has a running event loop: see `CrawledSite.look`.
    """
    if CHROMIUM is None or find_spec("playwright") is None:
        pytest.skip(
            "needs playwright and Chromium (on Debian and Ubuntu: apt install chromium-headless-shell)"
        )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ONE_RENDERER)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def scene(chromium: Any, screenshots: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A crawl that looks the same each time, as in the documentation, with its dashboard; tests leave it as it was."""
    folder = tmp_path_factory.mktemp("scene")

    def run(*words: str) -> None:
        run_python(PROGRAM, words, CHECKOUT, {**inherited(), **TRUSTED})

    with ExitStack() as stack:
        dashboard = Dashboard.start(folder=folder, settings={"DATA_DIR": folder}, program=PROGRAM)
        stack.callback(dashboard.process.kill)
        yield screenshots.Scene(dashboard.url, screenshots.fill(folder, run))


@pytest.fixture
def open_page(chromium: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Opens a page: `open_page("/crawls/broad")`, or of another dashboard: `open_page("/", dashboard.url)`.

    At the end of the test fails on each error in the console, such as one of the Content-Security-Policy, and if a
    script of the hostile web has run.
    """
    # colours that change gradually would be judged half-way
    context = chromium.new_context(
        color_scheme="light", reduced_motion="reduce", viewport={"width": 1280, "height": 900}
    )
    context.set_default_timeout(60_000)
    problems: list[str] = []

    def note(message: Any) -> None:
        # pages may answer with an error, but not what they load
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            problems.append(message.text)

    def check(allowed: Collection[int], answer: Any) -> None:
        if (
            answer.status >= 400
            and answer.request.resource_type != "document"
            and answer.status not in allowed
        ):
            problems.append(f"{answer.url}: {answer.status}")

    def open_page(path: str, url: str = "", allowed: Collection[int] = (), **options: Any) -> Any:
        page = context.new_page()
        page.on("console", note)
        page.on("response", partial(check, allowed))
        page.on("pageerror", lambda error: problems.append(str(error)))
        # made only for tests that open it
        url = url or request.getfixturevalue("site").url
        page.goto(url + path, wait_until="load", **options)
        return page

    yield open_page
    attacked = [page.url for page in context.pages if page.evaluate("window.attacked")]
    context.close()
    assert not problems and not attacked, (problems, attacked)


@pytest.fixture
def check_accessible() -> Callable[[Any], None]:
    """Runs axe-core on a page; fails on serious and critical findings."""

    def check(page: Any) -> None:
        # colours are right once the style sheet is there
        page.wait_for_load_state("load")
        serious = axe_findings(page, _SERIOUS)
        assert not serious, serious

    return check
