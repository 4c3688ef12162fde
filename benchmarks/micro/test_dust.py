"""What rules for different URLs with similar text cost: a page to learn them, and a link to use them."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.micro.conftest import URL
from webcrawl.documents.document import Document
from webcrawl.documents.html.outline import make_outline
from webcrawl.documents.page import Page
from webcrawl.pipelines.dust import sketch_of
from webcrawl.policies.page_sketches import Sketch
from webcrawl.urls.canonical import split
from webcrawl.worker.host_records import Dust

HOST = "https://shop.example"


def learned() -> Dust:
    """The rules of a host with sessions and with a parameter that means something."""
    dust, words, payloads = Dust(), random.Random(1), itertools.count(1)
    for n in range(100):
        text, other = words.getrandbits(64), words.getrandbits(64)
        for path in (f"/item/{n}", f"/item/{n}?sid={n}a", f"/item/{n}?sid={n}b"):
            dust.add(HOST, path, Sketch(next(payloads), text))
        dust.add(HOST, f"/list?page={n}", Sketch(next(payloads), other))
    assert HOST in dust.active
    return dust


@pytest.mark.parametrize("query", ["", "?page=2", "?page=2&sid=0123456789abcdef"])
def test_rewriting(benchmark: BenchmarkFixture, query: str) -> None:
    """1,000 links to a host with a rule: those without a query, with other parameters, and with the rule's."""
    dust = learned()
    paths = [f"/item/{n}{query}" for n in range(1_000)]

    def rewrite() -> int:
        return sum(dust.rewrite(HOST, path) is not None for path in paths)

    assert benchmark(rewrite) == (1_000 if "sid" in query else 0)


@pytest.mark.parametrize("query", ["", "?a={0}", "?a={0}&b=1&c=2"])
def test_learning(benchmark: BenchmarkFixture, query: str) -> None:
    """1,000 pages of a host, whose sketches are made already."""
    paths = [f"/item/{n}{query.format(n)}" for n in range(1_000)]
    sketch = Sketch(1, 2, 3)

    def learn() -> Dust:
        dust = Dust()
        for path in paths:
            if dust.wants(HOST, path):
                dust.add(HOST, path, sketch)
        return dust

    assert not benchmark(learn).active


def test_sketch(benchmark: BenchmarkFixture, body: bytes) -> None:
    """The sketch of a page that another process has parsed."""
    document = Document(body, "text/html", None, URL)
    outline = make_outline(document, facts=True, simhash=True)
    page = Page(url=URL, host="", fetched_at=datetime.now(UTC), status=200, mime_type="text/html")
    page.digest, page.length, page.reading.outline, page.simhash = (
        "sha1:A",
        len(body),
        outline,
        outline.simhash,
    )
    made = benchmark(lambda: sketch_of(page, *split(URL)))
    assert made is not None
    assert made.links
