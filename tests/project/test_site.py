"""`make docs` builds a site whose links lead somewhere and that needs no other server; its plots show the results."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from lxml import html

from tests.crawls import CHECKOUT

DOCS = CHECKOUT / "docs"
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
_FIRST_IS = "page => document.querySelector('.md-search-result__link')?.href.includes('/' + page)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Warnings are errors: broken links and anchors, pages that the navigation lacks."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_all_links_of_the_site_lead_to_its_pages(site: Path) -> None:
    trees = {path: html.fromstring(path.read_bytes()) for path in site.rglob("*.html")}
    del trees[site / "404.html"]  # its links are for a web server
    names = {path: set(tree.xpath("//@id | //a/@name")) for path, tree in trees.items()}
    broken = []
    for path, tree in trees.items():
        for link in tree.xpath("//a/@href | //img/@src | //link/@href | //script/@src"):
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = not parts.fragment or unquote(parts.fragment) in names.get(target, {parts.fragment})
            if not parts.scheme and not (target.exists() and known):
                broken.append((str(path.relative_to(site)), link))
    assert broken == []


@pytest.mark.slow
def test_the_site_loads_nothing_from_other_servers(site: Path) -> None:
    loaded = "//img/@src | //link[@rel != 'canonical']/@href | //script/@src"
    links = {
        link for path in site.rglob("*.html") for link in html.fromstring(path.read_bytes()).xpath(loaded)
    }
    assert links and not [link for link in links if urlsplit(link).netloc]


@pytest.mark.slow
def test_the_site_has_search_and_an_api_reference(site: Path) -> None:
    assert "SIMHASH_DISTANCE" in (site / "search" / "search_index.js").read_text()
    api = html.fromstring((site / "api.html").read_bytes())
    assert {"webcrawl.Page", "webcrawl.URLFilter.apply", "webcrawl.CrawlError"} <= set(api.xpath("//@id"))


@pytest.mark.slow
@pytest.mark.skipif(
    CHROMIUM is None or find_spec("playwright") is None,
    reason="needs the extra 'render' and Chromium (on Debian and Ubuntu: apt install chromium-headless-shell)",
)
@pytest.mark.parametrize(
    "words, page",
    [
        ("archive", "guide/archive.html"),
        ("broken links", "start/check-links.html"),
        ("jobs", "guide/jobs.html"),
        ("mirror", "start/mirror.html"),
        ("search", "start/search.html"),
    ],
)
def test_a_search_finds_what_to_do_before_the_details(site: Path, words: str, page: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto((site / "index.html").as_uri(), wait_until="networkidle")
        tab.click(".md-search__input")
        tab.keyboard.type(words)
        # the results for the first letters are there before
        tab.wait_for_function(_FIRST_IS, arg=page)
        browser.close()


def test_plots_are_drawn_from_the_present_results() -> None:
    plots = runpy.run_path(str(DOCS / "site" / "plots.py"))["plots"]()
    stored = {path.name: path.read_text() for path in (DOCS / "pictures").glob("*.svg") if path.name in plots}
    assert stored == plots, "run `make pictures`"
    pages = "".join(path.read_text() for path in DOCS.rglob("*.md"))
    assert all(f"](../pictures/{name})" in pages or f"](pictures/{name})" in pages for name in plots)


def test_the_panel_shows_figures_of_a_crawl() -> None:
    picture = (DOCS / "pictures" / "panel.svg").read_text().replace("&#160;", " ")
    assert "pages" in picture and "queued" in picture
    assert "url(http" not in picture and "@font-face" not in picture
