"""Requests whose class or values raise: a dead letter or a request held in memory, never a stopped scheduler."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from scrapy import Request, Spider

from webcrawl.crawler.scheduling.requests import to_candidate, to_request
from webcrawl.crawler.scheduling.unserializable import HeldRequests, ticket_of
from webcrawl.errors import StoreError, Unserializable
from webcrawl.frontier import LeasedURL
from webcrawl.urls.canonical import Canonicalizer

URL = "https://example.org/a"
canonicalizer = Canonicalizer()


class WithToken(Request):
    """Its constructor needs what `replace` and a queue entry do not have."""

    def __init__(self, *args: Any, token: int | None = None, **kwargs: Any) -> None:
        if token is None:
            raise RuntimeError("no token")
        super().__init__(*args, **kwargs)


class Unreadable(Request):
    """Its attribute cannot be read."""

    attributes = (*Request.attributes, "wish")

    @property
    def wish(self) -> str:
        raise LookupError("no wish")


class OddSpider(Spider):
    name = "odd"

    def parse_item(self, response: object) -> None: ...


class Array:
    """A value whose comparison has no truth, as those of NumPy."""

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


def test_a_queued_request_that_its_class_cannot_make_again_is_a_store_error() -> None:
    spider = OddSpider()
    candidate = to_candidate(WithToken(URL, token=1, callback=spider.parse_item), spider, canonicalizer)
    with pytest.raises(StoreError, match=f"the queued request for {URL} cannot be restored: no token"):
        to_request(LeasedURL.decode(0, candidate.host, candidate.entry()), spider)


def test_a_held_request_that_its_class_cannot_copy_is_a_store_error_and_is_dropped() -> None:
    wanted = Counter[str]()
    held = HeldRequests("worker", lambda host, more: wanted.update({host: more}))
    request = WithToken(URL, token=1, callback=lambda response: None)
    candidate = held.hold(request, OddSpider(), canonicalizer, Unserializable("a lambda"))
    url = LeasedURL.decode(0, candidate.host, candidate.entry())
    ticket = ticket_of(url.extra)
    assert ticket is not None and wanted.total() == 1
    with pytest.raises(StoreError, match=rf"{URL} cannot be copied by WithToken.replace: no token"):
        held.take_up(ticket, url)
    assert wanted.total() == 0 and held.take_up(ticket, url) is None


def test_a_request_whose_attributes_cannot_be_read_cannot_be_stored() -> None:
    with pytest.raises(Unserializable, match=r"Unreadable\.to_dict fails: LookupError\('no wish'\)"):
        to_candidate(Unreadable(URL), OddSpider(), canonicalizer)


def test_a_referrer_of_any_type_is_compared_by_identity() -> None:
    with pytest.raises(Unserializable, match="referrer"):
        to_candidate(Request(URL, meta={"referrer": Array()}), OddSpider(), canonicalizer)
