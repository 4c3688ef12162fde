"""A page for all microbenchmarks, the same on every machine."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

LINKS = 111
BYTES = 40_000
URL = "http://docs.example.org/library/page.html"


def made_page(seed: int = 1) -> str:
    """A page like those of documentation: 40 KB, text, and 111 links, some of them to sections."""
    chance = random.Random(seed)
    words = [
        "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 10))) for _ in range(800)
    ]
    parts = [
        "<!DOCTYPE html><html lang=en><head><title>A page</title><link rel=next href=next.html></head><body>"
    ]
    for number in range(LINKS):
        href = f"{chance.choice(words)}.html" if number % 3 else f"../{chance.choice(words)}.html#{number}"
        parts.append(
            f'<p class="line">{" ".join(chance.choices(words, k=20))} <a class="reference" href="{href}">'
        )
        parts.append(f"<code>{chance.choice(words)}</code></a> {' '.join(chance.choices(words, k=25))}</p>\n")
    return "".join(parts) + "</body></html>" + "<!-- -->" * ((BYTES - sum(map(len, parts))) // 8)


@pytest.fixture(autouse=True)
def what(benchmark: BenchmarkFixture, request: pytest.FixtureRequest) -> None:
    """Adds each benchmark's description to its figures."""
    benchmark.extra_info["what"] = " ".join((request.function.__doc__ or "").split()).removesuffix(".")


@pytest.fixture(scope="session")
def body() -> bytes:
    return made_page().encode()


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner
