"""Presses the button of lists that show more entries when it is pressed."""

from __future__ import annotations

from playwright.async_api import Page
from scrapy import Request
from scrapy_playwright.page import PageMethod


async def show_more(page: Page) -> None:
    """Presses the button as long as it is visible, at most twenty times."""
    button = page.locator("button.more")
    for _ in range(20):
        if not await button.is_visible():
            return
        await button.click()
        await page.wait_for_timeout(200)


class ShowMoreMiddleware:
    """Sets what the browser does with rendered lists."""

    def process_request(self, request: Request) -> None:
        if "/list" in request.url:
            request.meta["playwright_page_methods"] = [PageMethod(show_more)]
