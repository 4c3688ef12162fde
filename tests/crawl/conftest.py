"""Crawls of local webs, without delay unless a test is about delays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.crawls import CrawlResult


@pytest.fixture
def crawl(run_crawl: Callable[..., CrawlResult]) -> Callable[..., CrawlResult]:
    """Runs spider `broad` from seeds to its end, on their hosts: `crawl([url], DEPTH_LIMIT=1)`."""

    def run(seeds: Iterable[str] | str, *, scope: str = "host", **options: Any) -> CrawlResult:
        options = {"timeout": 30.0, "DOWNLOAD_DELAY": 0, **options}
        return run_crawl("broad", seeds, arguments={"scope": scope}, **options)

    return run
