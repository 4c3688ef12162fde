"""How the tests of the resolver run it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from webcrawl.errors import NameNotResolved
from webcrawl.hosts.dns import Resolver


class Clock:
    """The real time plus `ahead`, because c-ares uses the real clock."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


def run(resolver: Resolver, scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        try:
            await scenario()
        finally:
            await resolver.close()

    asyncio.run(bounded())


async def refusal(resolver: Resolver, name: str) -> NameNotResolved:
    with pytest.raises(NameNotResolved) as caught:
        await resolver.resolve(name)
    return caught.value


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)
