"""Fetches one page on a temporary crawl, into a store that lasts until the page is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scrapy.addons import AddonManager
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.settings import Settings

from webcrawl.spiders.base import BroadSpider
from webcrawl.temporary.command import check_temporary
from webcrawl.temporary.isolation import isolate, temporary_folder

_EVERY_URL = ["http://*", "https://*"]


class PageSpider(BroadSpider):
    """Stores the page of its seed, with the redirects that lead to it, and follows no link."""

    name = "page"

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        page = self.page(response)
        # nothing is kept
        page.archived.noarchive = page.reading.noindex = False
        yield page


@contextmanager
def fetched_page(given: Settings, url: str, *, render: bool) -> Iterator[Settings]:
    """Fetches a URL as a crawl with these settings does; yields the settings that name the store of the result.

    Prints why there is no response. `render`: in a browser. Raises ConfigurationError if a setting is wrong.
    """
    with TemporaryDirectory(prefix="webcrawl-page-") as results:
        settings = given.copy()
        with temporary_folder() as folder:
            isolate(settings, folder)
            stores = {
                "STORE_URI": Path(results, "warc").as_uri(),
                "METADATA_URI": f"sqlite:///{results}/metadata.db",
            }
            for name, value in stores.items():
                settings.set(name, value, priority="cmdline")
            # no request but for the page
            settings.set("SOFT_404", False, priority="cmdline")
            if render:
                settings.set("RENDER", _EVERY_URL, priority="cmdline")
            AddonManager.load_pre_crawler_settings(settings)
            check_temporary(settings)
            _crawl(settings, url)
        shown = given.copy()
        for name, value in {**stores, "DATA_DIR": results}.items():
            shown.set(name, value, priority="cmdline")
        yield shown


def _crawl(settings: Settings, url: str) -> None:
    process = AsyncCrawlerProcess(settings)
    task = process.crawl(PageSpider, seeds=url.replace(",", "%2C"), scope="path")
    process.start()
    if isinstance(task, asyncio.Future) and not task.cancelled():
        with suppress(CloseSpider):  # the scheduler, whose engine did not start, has logged it
            task.result()
