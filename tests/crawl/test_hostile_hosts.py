"""Attacks of `benchmarks.hostile_servers` on a small scale: what they cost is bounded, and charged to their hosts.

Others are in test_unreached_hosts, test_costly_documents, test_costs and test_responses.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crawls import CrawlResult, scrapy
from tests.documents import costly
from tests.web import Hit, LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

HONEST = "127.0.1.1"
PAGES = 10


def with_honest_host(local_web: StartWeb, *labels: str) -> LocalWeb:
    """Starts hosts and an honest one with a chain of pages."""
    web = local_web(HONEST, *labels)
    for number in range(PAGES):
        web.put(HONEST, f"/{number}", f"<title>{number}</title><a href=/{number + 1}>next</a>")
    web.put(HONEST, f"/{PAGES}", "the end")
    return web


def honest_pages(web: LocalWeb) -> set[str]:
    return set(web.paths(HONEST)) - {"/robots.txt"}


def cost(web: LocalWeb, label: str, data_dir: Path) -> dict[str, Any]:
    """What a host has cost the crawl."""
    done = scrapy("host", "--json", web.host(label), "-s", f"DATA_DIR={data_dir}")
    told: dict[str, Any] = json.loads(done.stdout)["costs"]["host"]["cost"]
    return told


def packed(body: bytes, kind: str) -> Reply:
    return Reply(gzip.compress(body, 1), headers={"Content-Type": kind, "Content-Encoding": "gzip"})


def html(body: bytes) -> Reply:
    return Reply(body, headers={"Content-Type": "text/html; charset=utf-8"})


def long_links() -> bytes:
    return "".join(
        costly.long_link(number, piece) for number in range(40) for piece in costly.PIECES
    ).encode()


def scripts() -> bytes:
    """JSON-LD: a deep list, many objects, and many scripts."""
    return b"".join(costly.linked_data(kind, 200_000) for kind in range(3))


def office() -> Reply:
    body, kind = costly.office(70)
    return Reply(body, headers={"Content-Type": kind})


# what is served, the facts that tell the cause, and the error
DOCUMENTS: dict[str, tuple[Callable[[], Reply], dict[str, Any], str | None]] = {
    "entries": (
        lambda: packed(costly.sitemap(60_000), "application/xml"),
        {"sitemap": "urlset", "entries": 50_000, "cut": True},
        None,
    ),
    "feed": (lambda: packed(costly.feed(20_000), "application/rss+xml"), {"entries": 20_000}, None),
    "frames": (
        lambda: html(b"<frameset>" + b"".join(b"<frame src=%d>" % n for n in range(210_000))),
        {"simplified": True},
        None,
    ),
    "anchors": (lambda: html(b"<a>" * 300_000), {"simplified": True}, None),
    "attributes": (
        lambda: html(b"<meta content=a " + b" ".join(b"a%d" % n for n in range(50_000)) + b">"),
        {"simplified": True},
        None,
    ),
    "alternates": (lambda: html(costly.alternates(3_000)), {"text_length": 0}, None),
    "urls": (lambda: html(long_links()), {"text_length": 0}, None),
    "jsonld": (lambda: html(scripts()), {"text_length": 0}, None),
    "inflate": (office, {}, "when unpacked"),
    "pdf": (lambda: Reply(costly.pdf(3_000_000), headers={"Content-Type": "application/pdf"}), {}, "memory"),
}

ONE_OF_EACH_PROCESS = {"entries", "frames", "jsonld", "pdf"}
"""Hosts whose costs are compared: a document that is read, a large page, a page, and a process that is ended."""


@pytest.mark.slow
def test_documents_that_cost_much_are_cut_and_charged(local_web: StartWeb, crawl: RunCrawl) -> None:
    labels = {f"127.0.9.{number}": name for number, name in enumerate(DOCUMENTS, 1)}
    web = with_honest_host(local_web, *labels)
    for label, name in labels.items():
        web.put(label, "/", "<a href=/costly>x</a>")
        web.put(label, "/costly", DOCUMENTS[name][0]())
    seeds = [web.url(label) for label in labels] + [web.url(HONEST, f"/{n}") for n in range(PAGES + 1)]
    result = crawl(seeds, DEPTH_LIMIT=1, DOWNLOAD_DELAY=0.05)
    assert len(honest_pages(web)) == PAGES + 1
    honest = cost(web, HONEST, result.data_dir)["seconds"]
    rows = {row["url"]: row for row in result.rows()}
    for label, name in labels.items():
        row, (_, told, error) = rows[web.url(label, "/costly")], DOCUMENTS[name]
        details = json.loads(row["details"] or "{}")
        assert {key: details.get(key) for key in told} == told, name
        assert (row["processing_error"] is None) == (error is None), (name, row["processing_error"])
        assert (error or "") in (row["processing_error"] or ""), name
        if name in ONE_OF_EACH_PROCESS:
            charged = cost(web, label, result.data_dir)
            assert charged["seconds"] > honest, name
            assert charged["bytes"] > row["warc_length"] / 2, name


def test_a_packed_robots_txt_is_unpacked_up_to_its_limit(local_web: StartWeb, crawl: RunCrawl) -> None:
    """The rules within the limit are obeyed; those beyond it would be found only by unpacking 20 MB."""
    lines = b"\n", b"User-agent: *\n", b"Disallow: /a*b$\n", b"\xff", b"User-agent: *" + b" " * 1_000 + b"\n"
    labels = [f"127.0.9.{number}" for number, _ in enumerate(lines, 1)]
    web = with_honest_host(local_web, *labels)
    sizes = []
    for label, line in zip(labels, lines, strict=True):
        many = line * (20_000_000 // len(line))
        rules = packed(
            b"User-agent: *\nDisallow: /first\n" + many + b"\nUser-agent: *\nDisallow: /last\n", "text/plain"
        )
        sizes.append(len(rules.body))
        web.put(label, "/robots.txt", rules)
        web.put(label, "/", "<a href=/first>x</a><a href=/last>x</a>")
        web.put(label, "/last", "beyond the limit")
    result = crawl([web.url(HONEST, "/0"), *map(web.url, labels)], DOWNLOAD_DELAY=0.05)
    assert result.summary["robots_denied"] == len(labels)
    assert len(honest_pages(web)) == PAGES + 1
    honest = cost(web, HONEST, result.data_dir)["seconds"]
    for label, size in zip(labels, sizes, strict=True):
        assert set(web.paths(label)) == {"/robots.txt", "/", "/last"}
        charged = cost(web, label, result.data_dir)
        assert size / 2 < charged["bytes"] < size + 2_000
        # more than a page of the honest host
        assert charged["seconds"] > honest / (PAGES + 1)


def test_a_sitemap_index_that_lists_itself_ends(local_web: StartWeb, crawl: RunCrawl) -> None:
    """Each of its entries is the same index again: they are copies, of which the host's pages are a few."""
    bad, entries = "127.0.9.1", 2_000
    web = with_honest_host(local_web, bad)
    listed = "".join(f"<sitemap><loc>/{number}.xml</loc></sitemap>" for number in range(entries))
    index = f'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{listed}</sitemapindex>'
    web.sites[bad]["*"] = Reply(index, headers={"Content-Type": "application/xml"})
    web.put(bad, "/robots.txt", Reply(status=404))
    result = crawl([web.url(HONEST, "/0"), web.url(bad)], DOWNLOAD_DELAY=0.05, HOST_MAX_PAGES=PAGES + 2)
    summary = result.summary
    assert len(honest_pages(web)) == PAGES + 1
    assert len(set(web.paths(bad)) - {"/robots.txt"}) == PAGES + 2 == len(web.paths(bad)) - 1
    assert (summary["seen_urls"], summary["exact_duplicates"]) == (entries + 1 + PAGES + 1, PAGES + 1)
    assert summary["parked"] == entries - PAGES - 1
    assert cost(web, bad, result.data_dir)["seconds"] > cost(web, HONEST, result.data_dir)["seconds"]


def test_the_cookies_of_a_host_are_bounded(crawl: RunCrawl, local_web: StartWeb) -> None:
    """A host gets back as many cookies as are kept of its answers, and not all that it has set."""
    bad = "127.0.9.1"
    web = with_honest_host(local_web, bad)

    def page(hit: Hit) -> Reply:
        number = int(hit.path[1:] or 0)
        lines = [f"p{number}n{cookie}={'v' * 8}; Path=/; Max-Age=9999" for cookie in range(900)]
        head = "".join(f"Set-Cookie: {line}\r\n" for line in lines)
        body = f"<a href=/{number + 1}>x</a>" if number < 6 else "the end"
        answer = (
            f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}"
        )
        return Reply(raw=answer.encode())

    web.sites[bad]["*"] = page
    web.put(bad, "/robots.txt", Reply(status=404))
    result = crawl([web.url(HONEST, "/0"), web.url(bad)], DOWNLOAD_DELAY=0.05, COOKIES_ENABLED=True)
    assert result.summary["pages"] == PAGES + 1 + 7
    sent = [
        [one.partition("=")[0] for one in hit.headers.get("Cookie", "").split("; ") if one]
        for hit in web.log(bad)
        if hit.path != "/robots.txt"
    ]
    assert [len(names) for names in sent] == [0, 50, 100, 150, 180, 180, 180]
    assert set(sent[1]) == {f"p0n{cookie}" for cookie in range(850, 900)}
    assert cost(web, bad, result.data_dir)["bytes"] > 7 * 900 * len(
        "Set-Cookie: p0n0=vvvvvvvv; Path=/; Max-Age=9999"
    )
