"""The work on each link that is new to a worker."""

from __future__ import annotations

import random
import time
from array import array
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.micro.conftest import URL
from webcrawl.config.parts import PRIORITIZERS
from webcrawl.crawler.shared_scope import chain_classes
from webcrawl.documents.document import Document
from webcrawl.documents.html.link_texts import link_texts
from webcrawl.documents.html.links import collect
from webcrawl.policies.learned_value import BITS, ValueModel as Model
from webcrawl.policies.mined import Mined
from webcrawl.policies.mined_terms import LearnedValue
from webcrawl.policies.priorities import Prioritizer, Prospect, Term
from webcrawl.policies.url_patterns import _of_shape, url_pattern
from webcrawl.urls.canonical import Base, split
from webcrawl.urls.domains import read_domains


def test_weighing(benchmark: BenchmarkFixture, body: bytes) -> None:
    """The weights and levels of the links of a page, all of them new, by the default chain."""
    settings = {"PRIORITIZERS": PRIORITIZERS}
    chain = Prioritizer.from_config(settings, chain_classes(settings, "PRIORITIZERS", Term))
    links = collect(Document(body, "text/html", None, URL).elements).joined(URL).links
    urls = [(url, split(url)[1]) for url in links]
    prospect = Prospect("", "", 3, URL, time.time())

    def weigh() -> list[int]:
        levels = []
        for prospect.url, prospect.path in urls:
            levels.append(chain.level(prospect))
        return levels

    assert set(benchmark(weigh)) == {3}


@pytest.mark.parametrize("kind", ["titles", "numbers"])
def test_patterns(benchmark: BenchmarkFixture, kind: str) -> None:
    """The patterns of 5,000 URLs with titles of three words, or with a number and two parameters."""
    words = [chr(97 + number) * 5 for number in range(18)]
    titles = [f"/news/{a}-{b}-{c}.html" for a in words for b in words for c in words][:5_000]
    numbers = [f"/thread/{number}?page={number % 7}&sort=new" for number in range(5_000)]
    paths = titles if kind == "titles" else numbers
    patterns = benchmark(lambda: set(map(url_pattern, paths)))
    assert patterns == {"/news/w.html" if kind == "titles" else "/thread/#?page&sort"}


def test_link_texts(benchmark: BenchmarkFixture, body: bytes) -> None:
    """The texts of the links of a page whose tree is there, which ANCHOR_WORDS needs."""
    tree = Document(body, "text/html", None, URL).html
    assert len(benchmark(lambda: link_texts(tree, Base(URL)))) > 50


def test_domains(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """1,000 URLs of hosts not met before, in a list of a million domains."""
    listed = 10**6 if benchmark.enabled else 10**3
    path = tmp_path / "domains.txt"
    path.write_text("".join(f"site-{number:07}.example\n" for number in range(listed)))
    domains = read_domains({"DENIED_DOMAINS": [f"@{path}"]}, "DENIED_DOMAINS")
    assert domains is not None
    urls = [f"https://www.site-{(number * 7919) % (2 * listed):07}.example/a/b" for number in range(1000)]

    def look_up() -> int:
        domains.covers_authority.cache_clear()
        return sum(map(domains.covers, urls))

    assert 0 < benchmark(look_up) < 1000


def test_domains_met(benchmark: BenchmarkFixture) -> None:
    """1,000 URLs of 100 hosts that were met before, in a list of domains."""
    domains = read_domains(
        {"DENIED_DOMAINS": [f"site-{number}.example" for number in range(50)]}, "DENIED_DOMAINS"
    )
    assert domains is not None
    urls = [f"https://www.site-{number % 100}.example/a/{number}" for number in range(1000)]
    assert benchmark(lambda: sum(map(domains.covers, urls))) == 500


def test_learned_value(benchmark: BenchmarkFixture) -> None:
    """The learned value of 1,000 links by weights that were just read: titles of three words, and texts."""
    dice = random.Random(1)
    table = array("f", [dice.gauss(0, 1) if dice.random() < 0.1 else 0 for _ in range(1 << BITS)])
    letters = str.maketrans("0123456789", "ghijklmnop")
    words = [f"{number:x}".translate(letters) for number in range(5_000)]
    texts = [" ".join(dice.choices(words, k=3)) for _ in range(1_000)]
    paths = [f"/section{index % 20}/{text.replace(' ', '-')}" for index, text in enumerate(texts)]
    prospects = [
        Prospect(f"{split(URL)[0]}{path}", path, index % 8, URL, text=text)
        for index, (path, text) in enumerate(zip(paths, texts, strict=True))
    ]
    term = LearnedValue()

    def weigh() -> int:
        _of_shape.cache_clear()
        term.use(Mined("now", Model("text", 0.0, table)))
        return len({term.weight(prospect) for prospect in prospects})

    assert benchmark(weigh) > 10
