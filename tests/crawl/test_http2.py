"""Crawls with the handler for HTTP/2 and impersonation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.crawl.archive import record_at
from tests.crawls import CHECKOUT, CrawlResult, items_of
from tests.http2 import Answer, serving
from tests.unit.crawler.download.test_http_ways import Authority
from tests.web import LocalWeb, Reply

HANDLER = "webcrawl.crawler.download.curl.CurlDownloadHandler"
EXAMPLE = CHECKOUT / "examples" / "impersonation"


def html(body: str) -> Answer:
    return Answer(body.encode(), headers={"content-type": "text/html; charset=utf-8"})


def test_a_spider_crawls_over_http_2_as_a_browser(
    run_crawl: Callable[..., CrawlResult], tmp_path: Path
) -> None:
    pages = {
        "/robots.txt": Answer(b"User-agent: *\nDisallow: /private"),
        "/": html(
            '<b class="price">1</b><a class="next" href="/2">2</a><a class="next" href="/private">x</a>'
        ),
        "/2": html('<b class="price">2</b>'),
    }
    with serving(Authority(tmp_path, "127.0.0.1").context, pages) as server:
        result = run_crawl(
            "prices",
            arguments={"url": server.url()},
            env={"PYTHONPATH": str(EXAMPLE)},
            SPIDER_MODULES="prices",
            FEEDS=json.dumps({str(tmp_path / "prices.jsonl"): {"format": "jsonlines"}}),
            DOWNLOAD_VERIFY_CERTIFICATES=False,
            DOWNLOAD_DELAY=0,
        )
    assert result.returncode == 0, result.stderr
    prices = [item for item in items_of(tmp_path / "prices.jsonl") if "price" in item]
    assert [item["price"] for item in prices] == ["1", "2"]
    asked = [dict(fields) for fields in server.requests]
    assert [fields[b":path"] for fields in asked] == [b"/robots.txt", b"/", b"/2"]
    # robots.txt is fetched under the name of the crawler, whose rules then hold
    assert [b"Chrome/" in fields[b"user-agent"] for fields in asked] == [False, True, True]


def test_the_default_spider_archives_http_2_and_http_1_with_the_same_handler(
    run_crawl: Callable[..., CrawlResult], local_web: Callable[..., LocalWeb], tmp_path: Path
) -> None:
    web = local_web("127.0.1.1")
    web.put("127.0.1.1", "/", Reply("plain old", headers={"Content-Type": "text/html"}))
    pages = {"/robots.txt": Answer(status=404), "/": html('<a href="/2">2</a>'), "/2": html("two")}
    with serving(Authority(tmp_path, "127.0.0.1").context, pages) as server:
        result = run_crawl(
            "broad",
            [server.url(), web.url("127.0.1.1")],
            arguments={"scope": "host"},
            DOWNLOAD_HANDLERS=json.dumps({"http": HANDLER, "https": HANDLER}),
            DOWNLOAD_VERIFY_CERTIFICATES=False,
            DOWNLOAD_DELAY=0,
        )
    assert result.returncode == 0, result.stderr
    assert {row["url"]: row["status"] for row in result.rows()} == {
        server.url(): 200,
        server.url("/2"): 200,
        web.url("127.0.1.1"): 200,
    }
    assert web.paths("127.0.1.1") == ["/robots.txt", "/"]
    two = next(row for row in result.rows() if row["url"] == server.url("/2"))
    record = record_at(result.data_dir, two)
    assert (record.body, record.headers.protocol, record.headers.statusline) == (b"two", "HTTP/1.1", "200 OK")
