"""Signals reach every connected listener."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydispatch import dispatcher
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.utils.test import get_crawler

from webcrawl.crawler.signals import count_without_tasks, is_heard, send

SIGNAL = signals.bytes_received


@pytest.fixture
def crawler() -> Crawler:
    return get_crawler()


@pytest.mark.parametrize("signal", [SIGNAL, dispatcher.Any])
@pytest.mark.parametrize("sender", ["crawler", dispatcher.Any, dispatcher.Anonymous])
def test_connected_listener_receives_the_signal(crawler: Crawler, sender: Any, signal: Any) -> None:
    """As with Scrapy: connected to one signal or all, of this crawler or of any sender."""

    def listener(data: bytes) -> bytes:
        return data.upper()

    sender = crawler if sender == "crawler" else sender
    assert send(crawler, SIGNAL, data=b"a") == []
    dispatcher.connect(listener, signal=signal, sender=sender)
    try:
        expected = crawler.signals.send_catch_log(SIGNAL, data=b"a")
        assert bool(expected) == (sender is not dispatcher.Anonymous)
        assert send(crawler, SIGNAL, data=b"a") == expected
        assert is_heard(crawler, SIGNAL) == bool(expected)
    finally:
        dispatcher.disconnect(listener, signal=signal, sender=sender)
    assert not is_heard(crawler, SIGNAL)


def test_listener_of_another_crawler_receives_nothing(crawler: Crawler) -> None:
    other = get_crawler()

    def listener() -> None:
        raise AssertionError("it was not sent here")

    other.signals.connect(listener, SIGNAL)
    assert not is_heard(crawler, SIGNAL)
    assert send(crawler, SIGNAL) == []


def test_scrapys_statistics_count_items_without_tasks_and_other_listeners_are_awaited(
    crawler: Crawler,
) -> None:
    count_without_tasks(crawler)
    heard: list[str] = []

    async def listener(item: str) -> str:
        await asyncio.sleep(0)
        heard.append(item)
        return item

    async def scrape() -> None:
        before = asyncio.all_tasks()
        sent = crawler.signals.send_catch_log_async(
            signals.item_scraped, item="a", response=None, spider=None
        )
        with pytest.raises(StopIteration):  # it waits for nothing
            sent.send(None)
        assert asyncio.all_tasks() == before and heard == []
        crawler.signals.connect(listener, signals.item_scraped)
        replies = await crawler.signals.send_catch_log_async(
            signals.item_scraped, item="b", response=None, spider=None
        )
        assert (listener, "b") in replies and heard == ["b"]

    asyncio.run(scrape())
    assert crawler.stats.get_value("item_scraped_count") == 2
