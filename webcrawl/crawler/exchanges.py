"""What travels with a request: the exchange on the wire, and the check right before it goes out."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from scrapy import Request

from webcrawl.documents.exchange import Exchange

TRUNCATE = "download_truncate"
"""Request.meta key: bytes after which the body is cut off instead of refused."""

_exchanges: WeakKeyDictionary[Request, Exchange] = WeakKeyDictionary()
_checks: WeakKeyDictionary[Request, Callable[[], None]] = WeakKeyDictionary()


def exchange_of(request: Request | None) -> Exchange | None:
    """What went over the wire for a request, as long as the request lives."""
    return None if request is None else _exchanges.get(request)


def keep_exchange(request: Request, exchange: Exchange) -> None:
    """Have `exchange_of` tell this for a request that another protocol served."""
    _exchanges[request] = exchange


def run_check(request: Request) -> None:
    """What `check_before_sending` asked for; a protocol calls it right before the request goes out."""
    if check := _checks.get(request):
        check()


def check_before_sending(request: Request, check: Callable[[], None]) -> None:
    """Have `check` called when the connection is there, right before the request goes out; it may raise to keep it."""
    _checks[request] = check


def check_of(request: Request) -> Callable[[], None] | None:
    """The check that `check_before_sending` set, or None."""
    return _checks.get(request)
