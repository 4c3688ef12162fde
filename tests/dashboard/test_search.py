"""Search and downloads: operators make the index and files by commands, which run as processes of the dashboard."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.crawls import Crawl
from tests.dashboard.site import ATTACK, CrawledSite, Dashboard, narrow
from tests.web import LocalWeb

OpenPage = Callable[..., Any]
HOME = "127.0.4.1"
PAGES = 12


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrawledSite]:
    """A crawl of twelve pages about storks, and a dashboard of it, in a folder whose name has a space."""
    folder = tmp_path_factory.mktemp("the texts")
    with LocalWeb(HOME) as web, ExitStack() as stack:
        links = "".join(f'<a href="/{number}">page {number}</a>' for number in range(PAGES))
        web.put(HOME, "/", f"<html lang=en><title>Birds</title><p>All birds of the river.</p>{links}")
        for number in range(PAGES):
            title = f"Stork {number} {ATTACK}".replace("<", "&lt;")
            # words of its own: pages with nearly the same text are a single result
            own = " ".join(
                f"{word}{number}" for word in ["chimney", "river", "meadow", "frog", "winter", "egg"] * 9
            )
            text = f"The stork builds its nest. {own}"
            web.put(HOME, f"/{number}", f"<html lang=en><title>{title}</title><p>{text}</p>")
        crawl = Crawl.start("broad", [web.url(HOME)], folder=folder, data_dir=folder / "data")
        stack.callback(crawl.kill)
        crawl.wait()
        dashboard = Dashboard.start(folder=folder, settings={"DATA_DIR": folder / "data"})
        stack.callback(dashboard.process.kill)
        yield CrawledSite(web, folder / "data", dashboard)


def make_index(page: Any) -> None:
    page.get_by_role("button", name="Make the index").click()
    page.get_by_text("pages, and was brought up to date").wait_for()


def test_the_index_is_made_and_searched_in_pages_of_results(open_page: OpenPage, texts: CrawledSite) -> None:
    page = open_page("/crawls/broad/search", texts.url)
    page.get_by_text("There is no index yet.").wait_for()
    assert f"webcrawl search --update -d '{texts.data_dir}'" in page.locator("main").inner_text()
    make_index(page)
    assert "It has 13 pages" in page.locator("main").inner_text()
    page.get_by_label("Words").fill("stork nests")
    page.keyboard.press("Enter")
    page.locator("#read", has_text="Results 1 to 10 of 12").wait_for()
    hits = page.locator(".hits > li")
    assert hits.count() == 10 and ATTACK in hits.first.inner_text()
    assert {"stork", "nest"} <= set(hits.first.locator("mark").all_inner_texts())
    assert "en" in hits.first.inner_text() and texts.web.url(HOME) in hits.first.inner_text()
    firsts = hits.locator("h2").all_inner_texts()
    page.get_by_role("link", name="Next results").click()
    page.locator("#read", has_text="Results 11 to 12 of 12").wait_for()
    assert hits.count() == 2 and not {*firsts} & {*hits.locator("h2").all_inner_texts()}
    page.get_by_label("Words").fill("strok nests")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="stork nests").wait_for()
    page.locator("#read", has_text="Results 1 to 10 of 12").wait_for()
    hits.first.get_by_role("link", name="Pages like").click()
    page.get_by_text("Pages with the most characteristic words of").wait_for()
    page.locator("#read", has_text="Results 1 to").wait_for()
    page.goto(f"{texts.url}/crawls/broad/search?words=birds+OR+stork&sort=date&language=en")
    assert page.get_by_label("Order").input_value() == "date"
    page.get_by_role("link", name="en 13").click()
    page.locator("#read", has_text="Results 1 to 10 of 13").wait_for()
    hits.first.get_by_role("heading").get_by_role("link").click()
    # the newest page is that whose answer came last
    archived = page.frame_locator("iframe.archived").locator("p").inner_text()
    assert "builds its nest" in archived or archived == "All birds of the river."


def test_a_search_has_filters_and_says_what_is_wrong_with_them(
    open_page: OpenPage, texts: CrawledSite
) -> None:
    page = open_page("/crawls/broad/search?words=stork", texts.url)
    if not (texts.data_dir / "index").exists():
        make_index(page)
        page.goto(f"{texts.url}/crawls/broad/search?words=stork")
    page.get_by_label("Language").fill("de")
    page.get_by_role("button", name="Search").click()
    page.get_by_text("No page has these words").wait_for()
    for query, told in {
        "words=stork&since=tomorrow": "'tomorrow' is not a time",
        "words=colour:red": "is not a field",
        "words=stork&start=x": "is not a whole number",
        "words=stork&host=elsewhere.example": "0 results.",
        "words=stork&all=1&start=10": "Results 11 to 12 of 12",
    }.items():
        page.goto(f"{texts.url}/crawls/broad/search?{query}")
        assert told in page.locator("main").inner_text(), query


def make(page: Any, title: str) -> Any:
    """Makes a product, and returns its card when it is made."""
    card = page.get_by_role("region", name=title)
    card.get_by_role("button", name="Make it").click()
    page.get_by_role("region", name=title).get_by_role("link").wait_for()
    return page.get_by_role("region", name=title)


def test_files_are_made_downloaded_and_deleted(
    open_page: OpenPage, texts: CrawledSite, tmp_path: Path
) -> None:
    page = open_page("/crawls/broad/downloads", texts.url)
    for title in ("Pages with their texts", "The archive as WACZ"):
        card = make(page, title)
        with page.expect_download() as started:
            card.get_by_role("link").click()
        started.value.save_as(tmp_path / title)
    rows = [json.loads(line) for line in (tmp_path / "Pages with their texts").read_text().splitlines()]
    assert len(rows) == PAGES + 1 and sum("builds its nest" in row["text"] for row in rows) == PAGES
    with zipfile.ZipFile(tmp_path / "The archive as WACZ") as wacz:
        assert "datapackage.json" in wacz.namelist() and wacz.testzip() is None
    folder = texts.data_dir / "downloads" / "broad"
    assert folder.stat().st_mode & 0o077 == 0 and {path.name for path in folder.iterdir()} == {"text", "wacz"}
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("region", name="The archive as WACZ").get_by_role("button", name="Delete").click()
    page.get_by_text("The archive as WACZ: deleted.").wait_for()
    assert {path.name for path in folder.iterdir()} == {"text"}


def test_a_command_that_fails_says_why(open_page: OpenPage, texts: CrawledSite) -> None:
    folder = texts.data_dir / "downloads" / "broad" / "csv"
    folder.parent.mkdir(exist_ok=True, parents=True)
    metadata = texts.data_dir / "metadata.db"
    page = open_page("/crawls/broad/downloads", texts.url)
    whole = metadata.read_bytes()
    try:
        metadata.write_bytes(b"no database" * 100)
        page.get_by_role("region", name="Pages as CSV").get_by_role("button").click()
        page.get_by_role("region", name="Pages as CSV").get_by_text("failed").wait_for()
        assert "scrapy export:" in page.get_by_role("region", name="Pages as CSV").inner_text()
        assert not folder.exists()
    finally:
        metadata.write_bytes(whole)


def test_readers_get_no_files_and_names_lead_nowhere_else(
    start_dashboard: Callable[..., Dashboard], texts: CrawledSite, open_page: OpenPage
) -> None:
    folder = texts.data_dir / "downloads" / "broad" / "jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pages.jsonl").write_text("{}\n")
    path = "/crawls/broad/downloads/file?product=jsonl&name="
    answer = urlopen(f"{texts.url}{path}pages.jsonl")
    assert answer.read() == b"{}\n" and "attachment" in answer.headers["Content-Disposition"]
    for name in ("../../../metadata.db", "%2e%2e/x", "none", "", "_export.json"):
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{texts.url}{path}{name}")
    reader = start_dashboard("--read-only", data_dir=texts.data_dir)
    for of_operators in ("/crawls/broad/downloads", f"{path}pages.jsonl"):
        with pytest.raises(HTTPError, match="403"):
            urlopen(reader.url + of_operators)
    page = open_page("/crawls/broad/search?words=stork", reader.url)
    assert "webcrawl search --update" in page.locator("main").inner_text()
    assert page.locator("form[method=post]").count() == 0
    assert page.get_by_role("link", name="Downloads").count() == 0


@pytest.mark.parametrize("path", ["search", "search?words=stork", "downloads"])
def test_pages_of_hostile_texts_are_accessible_and_fit_a_phone_in_the_dark(
    open_page: OpenPage, texts: CrawledSite, check_accessible: Callable[[Any], None], path: str
) -> None:
    page = open_page(f"/crawls/broad/{path}", texts.url)
    narrow(page)
    check_accessible(page)
