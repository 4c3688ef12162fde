"""The pages of all crawls and of one crawl, in a browser, beside crawls that run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from redis import Redis

from tests.crawls import Crawl
from tests.dashboard.engine import in_engine
from tests.dashboard.site import CLOSED, CrawledSite, Dashboard, until_shown
from tests.web import LocalWeb, Reply
from webcrawl.frontier import Candidate
from webcrawl.frontier.crawl import CrawlRun, Runs, note_end
from webcrawl.opened import OpenedCrawl

OpenPage = Callable[..., Any]
Check = Callable[[Any], None]
SLOW = "127.0.1.5"


def figure(page: Any, name: str) -> str:
    """The value of one of the figures of a page."""
    return str(page.locator(f"dl.figures div:has(dt:text-is('{name}')) dd").first.inner_text())


def test_a_finished_crawl_and_what_it_says(site: CrawledSite, open_page: OpenPage) -> None:
    page = open_page("/")
    assert page.title() == "Crawls · webcrawl"
    assert page.locator("article .badge").first.inner_text() == "finished"
    page.get_by_role("link", name="broad", exact=True).click()
    page.wait_for_url("**/crawls/broad")
    for name in ("pages", "hosts"):
        assert figure(page, name) == f"{site.summary[name]:,}"
    assert figure(page, "dead letters") == "1"
    statuses = page.locator(
        "section.card:has(h2:text-is('Responses by status')) tr th[scope=row]"
    ).all_inner_texts()
    assert statuses == ["200", "302", "404"]
    types = page.locator(
        "section.card:has(h2:text-is('Documents by type')) tr th[scope=row]"
    ).all_inner_texts()
    assert "text/html" in types
    settings = page.locator("section.card:has(h2:text-is('Seeds and settings of the latest run'))")
    shown = settings.inner_text()
    assert "DOWNLOAD_DELAY" in shown and "password" not in shown
    assert "3 seeds" in shown and CLOSED in shown and "scope host" in shown
    assert not page.get_by_role("button", name="Pause").is_visible()
    assert (
        "It finished: there is nothing left to crawl." in page.get_by_role("region", name="End").inner_text()
    )
    page.get_by_text("Plots of the crawl").click()
    # it may have been too short for plots
    page.locator(".plot canvas, p:text('Nothing to plot')").locator("visible=true").first.wait_for()
    missing = open_page("/crawls/narrow")
    assert "there is no crawl 'narrow'" in missing.locator("main").inner_text()
    assert missing.get_by_role("link").all_inner_texts()[1:] == [
        "webcrawl",
        "Crawls",
        "Jobs",
        "Start",
        "All crawls",
    ]


def test_a_killed_crawl_does_not_tell_how_its_earlier_run_ended(
    site: CrawledSite, open_page: OpenPage
) -> None:
    async def fill(opened: OpenedCrawl) -> None:
        crawl = opened.connection.crawl
        await opened.connection.frontier.add([Candidate("http://killed.test", "/", None)])
        await note_end(crawl, "stopped")
        await Runs(crawl.engine, crawl.keys).begin(CrawlRun("broad", time.time() + 1, {}))

    in_engine(site, "killed", fill)
    end = open_page("/crawls/killed").get_by_role("region", name="End").inner_text()
    assert "Its workers ended without a word" in end and "1 URL is left." in end
    assert "The same command continues it." in end


def test_a_page_is_used_by_keyboard(open_page: OpenPage) -> None:
    page = open_page("/crawls/broad/hosts?list=fetched")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    met = []
    for _ in range(8):
        page.keyboard.press("Tab")
        found = page.evaluate(
            "(({tagName, name, textContent}, style) => [tagName, name || textContent.trim(), style])"
            "(document.activeElement, getComputedStyle(document.activeElement).outlineStyle)"
        )
        met.append(found)
    assert [style for _, _, style in met] == ["solid"] * 8, "each shows that it has the focus"
    names = ["list", "text", "Show", None, "Host", "Queued", "Pages", "Received"]
    assert all(name in (None, text) for name, (_, text, _) in zip(names, met, strict=True)), met
    page.keyboard.press("Enter")
    page.locator("thead th[aria-sort=descending]", has_text="Received").wait_for()


def test_a_crawl_appears_is_live_and_obeys(
    start_dashboard: Callable[..., Dashboard],
    start_crawl: Callable[..., Crawl],
    local_web: Callable[..., LocalWeb],
    open_page: OpenPage,
    check_accessible: Check,
    redis_url: str,
    valkey: Redis,
) -> None:
    dashboard = start_dashboard(REDIS_URL=redis_url)
    page = open_page("/", dashboard.url)
    assert "No crawl yet" in page.locator("main").inner_text()
    assert "scrapy crawl https:" in page.locator("pre").inner_text()
    check_accessible(page)

    web = local_web(SLOW)
    links = "".join(f"<a href=/{number}>x</a>" for number in range(500))
    web.put(SLOW, "*", Reply(f"<title>slow</title>{links}", delay=0.05))
    options = {"CRAWL_ID": "slow", "REDIS_URL": redis_url, "DOWNLOAD_DELAY": 0.2}
    crawl = start_crawl("broad", [web.url(SLOW)], **options)
    until_shown(lambda: page.locator("article h2").count() == 1, crawl)
    page.get_by_role("link", name="slow", exact=True).click()
    page.wait_for_url("**/crawls/slow")
    state = page.locator("#state .badge")
    until_shown(lambda: state.inner_text() == "running", crawl)
    before = figure(page, "pages")
    until_shown(lambda: figure(page, "pages") != before, crawl)
    until_shown(lambda: page.locator("#workers td").count() > 1, crawl)
    until_shown(lambda: float(page.locator("#workers td").first.inner_text()) > 0, crawl)
    outlook = page.get_by_role("region", name="Outlook")
    until_shown(lambda: "politeness" in outlook.inner_text(), crawl)
    assert "Ends" in outlook.inner_text()
    until_shown(lambda: page.locator("#latest tbody tr").count() > 1, crawl)
    check_accessible(page)

    page.get_by_role("button", name="Pause").click()
    assert "is paused" in page.locator("p.notice:visible").inner_text()
    assert valkey.hexists("wc:{c:slow}:info", "paused")
    until_shown(lambda: state.inner_text() == "paused", crawl)
    page.get_by_role("button", name="Resume").click()
    until_shown(lambda: state.inner_text() == "running", crawl)
    assert not valkey.hexists("wc:{c:slow}:info", "paused")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Stop").click()
    result = crawl.wait()
    assert result.returncode == 0 and result.summary["finish_reason"] == "stopped"
    assert result.summary["queued"] > 0, "the queue stays"
    end = page.get_by_role("region", name="End")
    end.wait_for()
    assert "It was stopped by an operator." in end.inner_text()
    assert "The same command continues it." in end.inner_text()
