"""Lists that show more when a button is pressed: it is pressed before the page is read."""

from __future__ import annotations

from playwright.async_api import Page
from scrapy import Request
from scrapy_playwright.page import PageMethod


async def show_more(page: Page) -> None:
    """Press the button as long as there is one, twenty times at most."""
    button = page.locator("button.more")
    for _ in range(20):
        if not await button.is_visible():
            return
        await button.click()
        await page.wait_for_timeout(200)


class ShowMoreMiddleware:
    """Tells what is to be done with the pages of lists, where RENDER has them rendered."""

    def process_request(self, request: Request) -> None:
        if "/list" in request.url:
            request.meta["playwright_page_methods"] = [PageMethod(show_more)]
