"""The work on the body of each page."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.micro.conftest import LINKS, URL, made_page
from webcrawl.documents.body import Body
from webcrawl.documents.document import Document
from webcrawl.documents.exchange import Exchange
from webcrawl.documents.html.facts import describe
from webcrawl.documents.html.links import collect
from webcrawl.documents.html.main_text import main_part
from webcrawl.documents.html.markdown import markdown
from webcrawl.documents.html.text import visible_text
from webcrawl.documents.simhash import simhash64
from webcrawl.stores.warc.writer import WarcWriter
from webcrawl.urls.canonical import Base, Canonicalizer, resolve

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"


def document(body: bytes) -> Document:
    return Document(body, "text/html", None, URL)


def links(body: bytes) -> list[str]:
    return collect(document(body).elements).joined(URL).links


def test_parsing(benchmark: BenchmarkFixture, body: bytes) -> None:
    """A page's tree, and one search for the elements that lead elsewhere."""
    assert len(benchmark(lambda: document(body).elements)) == LINKS + 1


def test_link_extraction(benchmark: BenchmarkFixture, body: bytes) -> None:
    """The links of a page whose tree is there."""
    elements = document(body).elements
    extracted = benchmark(lambda: collect(elements).joined(URL))
    assert 0 < len(extracted.links) <= LINKS + 1


def test_normalizing(benchmark: BenchmarkFixture, body: bytes) -> None:
    """The links of a page, one by one, as WHATWG parses them."""
    urls = links(body)
    assert benchmark(lambda: [resolve(url) for url in urls]) == urls


def test_canonicalizing(benchmark: BenchmarkFixture, body: bytes) -> None:
    """Canonical forms of the links of a page."""
    urls, canonicalizer = links(body), Canonicalizer()
    assert len(benchmark(lambda: [canonicalizer.canonical(url) for url in urls])) == len(urls)


def test_fingerprints(benchmark: BenchmarkFixture, body: bytes) -> None:
    """Of the links of a page, canonicalizing included."""
    urls, canonicalizer = links(body), Canonicalizer()
    assert len(set(benchmark(lambda: [canonicalizer.fingerprint(url) for url in urls]))) == len(urls)


def test_facts(benchmark: BenchmarkFixture, body: bytes) -> None:
    """Title, language, headings, main text... of a page whose tree is there."""
    page = document(body)
    assert page.html is not None
    facts = benchmark(lambda: describe(page))
    assert facts.title == "A page" and len(facts.text) > 10_000


def test_visible_text(benchmark: BenchmarkFixture, body: bytes) -> None:
    """All text of a page whose tree is there."""
    tree = document(body).html
    assert len(benchmark(lambda: visible_text(tree))) > 10_000


def test_markdown(benchmark: BenchmarkFixture, body: bytes) -> None:
    """Of the main part of a page whose tree is there; the same figure for TEXT_MARKDOWN."""
    page = document(body)
    part = main_part(page.html)
    assert len(benchmark(lambda: markdown(page.html, part, Base(URL)))) > 10_000


def test_simhash(benchmark: BenchmarkFixture, body: bytes) -> None:
    """Of the text of a page."""
    text = describe(document(body)).text
    assert benchmark(lambda: simhash64(text)) is not None


def test_warc_write(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Response and request of a page, compressed: one of ten pages each time."""
    exchanges = [
        Exchange(
            url=URL,
            method="GET",
            request_head=b"GET /library/page.html HTTP/1.1\r\nHost: docs.example.org\r\n\r\n",
            request_body=b"",
            status=200,
            response_head=HEAD,
            payload=Body(made_page(seed).encode()),
            ip_address="192.0.2.1",
            fetched_at=datetime.now(UTC),
        )
        for seed in range(10)
    ]
    turn = count()
    with WarcWriter(tmp_path, "micro", "webcrawl") as writer:
        location = benchmark(lambda: writer.write(exchanges[next(turn) % len(exchanges)]))
    assert location.length > 1_000
