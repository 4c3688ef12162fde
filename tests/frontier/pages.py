"""Test data for the frontier, and ways to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from webcrawl.engine.client import Engine
from webcrawl.frontier import SAMPLE, Candidate, Frontier, Lease, Settlement


def page(url: str, *, seen_test: bool = True, **more: Any) -> Candidate:
    """A candidate for a URL such as http://a.test/1; its fingerprint is derived from the URL."""
    scheme, _, rest = url.partition("://")
    name, slash, path = rest.partition("/")
    more.setdefault("fingerprint", hash_of(url) if seen_test else None)
    return Candidate(host=f"{scheme}://{name}", path=slash + path, **more)


def hash_of(text: str) -> int:
    """A signed 64-bit hash of a text, the same in every process.

    Of half of the texts, as URLs, the engine keeps when they were queued.
    """
    number = 14695981039346656037
    for byte in text.encode():
        number = (number ^ byte) * 1099511628211 % 2**64
    return (number - 2**63) // (SAMPLE // 2) * (SAMPLE // 2)


async def past(engine: Engine, seconds: float = 0.0) -> None:
    """Wait until the server's clock is 1 ms past `seconds` from now."""
    start = await engine.client.time()
    target = start[0] * 1000 + start[1] // 1000 + int(seconds * 1000) + 1
    while (now := await engine.client.time())[0] * 1000 + now[1] // 1000 <= target:
        await asyncio.sleep(0.001)


async def silence_over(frontier: Frontier, host: str) -> None:
    """End the pause of a host now."""
    await frontier.engine.client.hdel(frontier.keys.host(host), "until")
    await frontier.block_until(host, 0)
    await past(frontier.engine)


def urls_of(leases: Iterable[Lease]) -> list[str]:
    """The leased URLs, in order."""
    return [url.url for lease in leases for url in lease.urls]


def all_done(lease: Lease) -> list[Settlement]:
    """Settlements that mark every URL of a lease as done."""
    return [Settlement(url.index) for url in lease.urls]


def tree(hosts: int, pages: int) -> tuple[list[str], dict[str, list[str]]]:
    """A tree of pages: their URLs, and the links of each. All pages can be reached from the first."""
    urls = [f"http://h{n % hosts}.test/{n}" for n in range(pages)]
    links = {
        url: [urls[k] for k in (2 * n + 1, 2 * n + 2, n // 2) if k < pages] for n, url in enumerate(urls)
    }
    return urls, links
