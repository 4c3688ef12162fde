"""Data attached to a request or response belongs to that object and is freed with it."""

from __future__ import annotations

import asyncio
import gc
import weakref

from scrapy import Request
from scrapy.http import HtmlResponse

from webcrawl.crawler.fetch import check_before_sending, check_of, fetch_of, run_check
from webcrawl.crawler.pages.from_response import document_of, pending_links_of

URL = "https://example.org/"


def test_copies_of_a_request_share_no_data() -> None:
    request = Request(URL)
    called: list[str] = []
    check_before_sending(request, lambda: called.append("checked"))
    run_check(request)
    assert called == ["checked"]
    for other in (request.copy(), request.replace(url=URL + "other"), Request(URL, meta=request.meta)):
        assert check_of(other) is None
        assert fetch_of(other) is not fetch_of(request)
    assert request.meta == {}


def test_document_belongs_to_one_response() -> None:
    response = HtmlResponse(URL, body=b"<title>one</title>", request=Request(URL))
    assert document_of(response) is document_of(response)
    assert pending_links_of(response) is pending_links_of(response)
    replaced = response.replace(body=b"<title>two</title>")
    assert document_of(replaced) is not document_of(response)
    assert document_of(replaced).body == b"<title>two</title>"
    assert document_of(response).body == b"<title>one</title>"


def test_attached_data_is_freed_with_its_owner() -> None:
    request = Request(URL)
    response = HtmlResponse(URL, body=b"<p>text", request=request)
    fetch_of(response).processed = processed = asyncio.Event()
    freed = weakref.ref(processed)
    del processed
    assert freed() is not None
    del response
    gc.collect()
    assert freed() is None
    assert fetch_of(request).processed is None
