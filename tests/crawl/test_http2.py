"""Crawls with the handler for HTTP/2 and impersonation."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.crawl.archive import record_at
from tests.crawls import CHECKOUT, CrawlResult, items_of
from tests.downloads import names
from tests.http2 import Answer, serving
from tests.ports import free_ports
from tests.unit.crawler.download.test_http_ways import Authority
from tests.web import LocalWeb, Reply
from tests.wire import NOT_YOU, Proxy, running

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
        run_crawl(
            "prices",
            arguments={"url": server.url()},
            env={"PYTHONPATH": str(EXAMPLE)},
            SPIDER_MODULES="prices",
            FEEDS=json.dumps({str(tmp_path / "prices.jsonl"): {"format": "jsonlines"}}),
            DOWNLOAD_VERIFY_CERTIFICATES=False,
        )
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
            DOWNLOAD_HANDLERS=json.dumps({"http": HANDLER, "https": HANDLER}),
            DOWNLOAD_VERIFY_CERTIFICATES=False,
        )
    assert {row["url"]: row["status"] for row in result.rows()} == {
        server.url(): 200,
        server.url("/2"): 200,
        web.url("127.0.1.1"): 200,
    }
    assert web.paths("127.0.1.1") == ["/robots.txt", "/"]
    two = next(row for row in result.rows() if row["url"] == server.url("/2"))
    record = record_at(result.data_dir, two)
    assert (record.body, record.headers.protocol, record.headers.statusline) == (b"two", "HTTP/1.1", "200 OK")


def test_a_browser_crawls_through_the_working_proxies_behind_the_guard(
    run_crawl: Callable[..., CrawlResult], local_web: Callable[..., LocalWeb], tmp_path: Path
) -> None:
    web = local_web("plain.test")
    web.put("plain.test", "/", Reply('<b class="price">old</b>', headers={"Content-Type": "text/html"}))
    shops = ["a.shop.test", "b.shop.test"]
    authority = Authority(tmp_path, "127.0.0.1", *shops)
    pages = {"/robots.txt": Answer(status=404)}
    with ExitStack() as stack:
        server = stack.enter_context(serving(authority.context, pages))
        inner = ["https://inner.test/secret", server.url("/secret"), "http://[::1]/secret"]
        links = [server.url(f"/{n}", shop) for n in range(3) for shop in shops] + [
            web.url("plain.test"),
            *inner,
        ]
        pages["/"] = html("".join(f'<a class="next" href="{link}">x</a>' for link in links))
        pages |= {f"/{n}": html(f'<b class="price">{n}</b>') for n in range(3)}
        ways = {f"{shop}:{server.port}": server.port for shop in shops}
        plain = web.host("plain.test").removeprefix("http://")
        ways[plain] = int(plain.rpartition(":")[2])
        good = [stack.enter_context(running(Proxy(ways))) for _ in range(2)]
        closed = stack.enter_context(running(Proxy(ways, refusal=NOT_YOU)))
        dead = f"http://127.0.0.1:{free_ports(1)[0]}"
        urls = [*(proxy.url for proxy in (*good, closed)), dead]
        result = run_crawl(
            "prices",
            arguments={"url": server.url("/", shops[0])},
            env={"PYTHONPATH": str(EXAMPLE), "SSL_CERT_FILE": str(authority.file)},
            SPIDER_MODULES="prices",
            PROXIES=",".join(url.replace("//", "//me:secret@") for url in urls),
            PROXY_ROTATION="request",
            DNS_SERVERS=stack.enter_context(
                names(
                    inner_test="127.0.0.1",
                    **{name.replace(".", "_"): "192.0.2.1" for name in (*shops, "plain.test")},
                )
            ),
            ALLOWED_NETWORKS="192.0.2.0/24",
        )
    asked = [dict(fields) for fields in server.requests]
    shown = [
        (fields[b":authority"].decode().partition(":")[0], fields[b":path"].decode()) for fields in asked
    ]
    wanted = [(shop, path) for shop in shops for path in ("/0", "/1", "/2", "/robots.txt")]
    assert sorted(shown) == sorted([*wanted, (shops[0], "/")])
    assert web.paths("plain.test") == ["/robots.txt", "/"]
    # names that only the proxies know are fetched, inner addresses that a page chose are not
    assert result.summary["addresses_refused"] == len(inner)
    targets = [line.split(b" ")[1].decode() for proxy in (*good, closed) for line in proxy.asked]
    assert {target.removeprefix("http://").partition("/")[0] for target in targets} == set(ways)
    # every page has the next proxy, one that fails is left out, and no credentials are passed on
    assert min(len(proxy.asked) for proxy in good) > 1
    assert {one for proxy in good for one in proxy.credentials} == {b"Basic bWU6c2VjcmV0"}
    assert result.stderr.count("fails and is left out for 10 seconds") == 2
    assert (result.summary["failed"], result.summary["dead_letters"]) == (0, 0)
    assert not any(b"proxy-authorization" in fields for fields in asked)
    agents = {fields[b":path"]: b"Chrome/" in fields[b"user-agent"] for fields in asked}
    assert [path for path, is_browser in agents.items() if not is_browser] == [b"/robots.txt"]
