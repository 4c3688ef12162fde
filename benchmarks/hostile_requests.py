"""A request to a hostile host, and what an attack is made of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from benchmarks.servers import HTML, RULES, answer


@dataclass(frozen=True, slots=True)
class Asked:
    """One request to a hostile host: the number of the host, its authority and the path; the stream of the answer."""

    host: int
    authority: str
    path: str
    stream: asyncio.StreamWriter

    async def say(self, body: bytes, kind: str = HTML, status: str = "200 OK") -> None:
        """Sends a complete answer."""
        await self.send(answer(status, body, kind))

    async def send(self, data: bytes) -> None:
        """Sends bytes as they are."""
        self.stream.write(data)
        await self.stream.drain()

    async def link(self, urls: Iterable[str]) -> None:
        """Sends a page with these links."""
        await self.say("".join(f'<a href="{url}">a</a>\n' for url in urls).encode())


@dataclass(frozen=True, slots=True)
class Attack:
    """What the hostile hosts do: a sentence about it, the answers but robots.txt, the number of hosts, robots.txt.

    The crawl begins with the page / of each host, and has these `settings`. Without `robots`, `answer` answers
    /robots.txt too.
    """

    sentence: str
    answer: Callable[[Asked], Awaitable[None]]
    hosts: int = 1
    robots: Callable[[], bytes] | None = lambda: RULES
    settings: Mapping[str, object] = field(default_factory=dict)


async def own_pages(asked: Asked) -> None:
    await asked.link(f"/{number}/{asked.path.count('/')}-article-about-something" for number in range(100))
