"""Sends signals of single pages at little cost when no receiver is connected."""

from __future__ import annotations

from typing import Any

from pydispatch.dispatcher import Any as AnySender, connections
from scrapy.crawler import Crawler

_ANY_SENDER = id(AnySender)


def send(crawler: Crawler, signal: object, **details: Any) -> list[tuple[Any, Any]]:
    """Sends a signal like `crawler.signals.send_catch_log`, in a tenth of its time if no receiver is connected."""
    if is_heard(crawler, signal):
        return crawler.signals.send_catch_log(signal, **details)
    return []


def is_heard(crawler: Crawler, signal: object) -> bool:
    """Whether a receiver is connected to this signal of a crawler."""
    for sender in (id(crawler), _ANY_SENDER):
        receivers = connections.get(sender)
        if receivers and (receivers.get(signal) or receivers.get(AnySender)):
            return True
    return False
