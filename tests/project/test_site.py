"""`make docs` builds a site whose links lead somewhere and that needs no other server; its plots show the results."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from lxml import html

from tests.crawls import CHECKOUT

DOCS = CHECKOUT / "docs"


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


def test_plots_are_drawn_from_the_present_results() -> None:
    plots = runpy.run_path(str(DOCS / "site" / "plots.py"))["plots"]()
    stored = {path.name: path.read_text() for path in (DOCS / "pictures").glob("*.svg") if path.name in plots}
    assert stored == plots, "run `make pictures`"
    pages = "".join(path.read_text() for path in DOCS.rglob("*.md"))
    assert all(f"](../pictures/{name})" in pages for name in plots)


def test_the_panel_shows_figures_of_a_crawl() -> None:
    picture = (DOCS / "pictures" / "panel.svg").read_text().replace("&#160;", " ")
    assert "pages" in picture and "queued" in picture
    assert "url(http" not in picture and "@font-face" not in picture
