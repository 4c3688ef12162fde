"""The list of stored pages: filters, orders, and the links that lead to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from tests.dashboard.engine import in_engine
from tests.dashboard.site import ATTACK, CLOSED, HOME, OTHER, CrawledSite
from webcrawl.opened import OpenedCrawl
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.page_list import PAGE_ROWS

OpenPage = Callable[..., Any]


def listed(page: Any) -> list[str]:
    return [str(url) for url in page.locator("tbody th a").all_inner_texts()]


def follow(page: Any, link: Any) -> None:
    with page.expect_navigation():
        link.click()


def test_bars_and_hosts_lead_to_their_pages(open_page: OpenPage, site: CrawledSite) -> None:
    page = open_page("/crawls/broad")
    follow(page, page.get_by_role("link", name="404", exact=True))
    page.get_by_role("heading", name="Pages", exact=True).wait_for()
    assert listed(page) == [site.web.url(HOME, "/gone")]
    assert page.get_by_label("Status").input_value() == "404"
    assert ATTACK in page.locator("tbody").inner_text(), "hostile titles are text"
    page.goto(f"{site.url}/crawls/broad")
    follow(page, page.get_by_role("link", name="text/html", exact=True))
    assert site.web.url(HOME, "/copy") in listed(page)
    page.goto(f"{site.url}/crawls/broad")
    follow(page, page.get_by_role("link", name=f"Pages of {site.web.url(OTHER).rstrip('/')}").first)
    assert listed(page) == [site.web.url(OTHER)]
    page.goto(f"{site.url}/crawls/broad/hosts/host?host={quote(site.web.url(HOME))}")
    follow(page, page.get_by_role("link", name="404", exact=True))
    assert listed(page) == [site.web.url(HOME, "/gone")]


def test_a_list_is_filtered_and_sorted_without_scripts(chromium: Any, site: CrawledSite) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site.url}/crawls/broad/pages")
    everything = listed(page)
    follow(page, page.get_by_role("link", name="Page", exact=True))
    assert listed(page) == sorted(everything)
    follow(page, page.get_by_role("link", name="Page", exact=True))
    assert listed(page) == sorted(everything, reverse=True)
    page.get_by_label("Copies").select_option("exact copies")
    follow(page, page.get_by_role("button", name="Show"))
    [copy] = listed(page)
    assert copy in (site.web.url(HOME, "/copy"), site.web.url(OTHER)), "whichever came later"
    follow(page, page.get_by_role("link", name="Clear"))
    page.get_by_label("Status").fill("none")
    follow(page, page.get_by_role("button", name="Show"))
    assert CLOSED in listed(page)
    page.get_by_label("Status").fill("many")
    follow(page, page.get_by_role("button", name="Show"))
    assert "'many' is not a status" in page.locator("main").inner_text()
    context.close()


def test_a_long_list_has_several_pages(open_page: OpenPage, site: CrawledSite) -> None:
    number = PAGE_ROWS + 20

    async def fill(opened: OpenedCrawl) -> None:
        with Metadata(opened.stores.metadata) as metadata:
            [row] = [metadata.get(site.web.url(HOME, "/copy"))]
            assert row is not None
            metadata.upsert([{**row, "url": f"http://many.test/{n}", "crawl": "many"} for n in range(number)])

    in_engine(site, "many", fill)
    page = open_page("/crawls/many/pages?order=url")
    first = listed(page)
    assert f"{number} URLs." in page.locator("#read").inner_text()
    follow(page, page.get_by_role("link", name="Next pages"))
    assert len({*first, *listed(page)}) == number
    follow(page, page.get_by_role("link", name="First pages"))
    assert listed(page) == first


def test_a_list_without_a_match_says_so(open_page: OpenPage, site: CrawledSite) -> None:
    page = open_page("/crawls/broad/pages?text=nothing-has-this")
    assert "No URL matches" in page.locator("main").inner_text()
