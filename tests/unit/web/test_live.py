"""One sampler reads for all open pages, sends what changed, and rests while nobody looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from webcrawl.errors import StoreError
from webcrawl.web.live import Sampler, Topic, events


class Source:
    """Figures that grow with each reading."""

    def __init__(self) -> None:
        self.read: list[Topic] = []
        self.fails = False

    async def __call__(self, topic: Topic) -> dict[str, str]:
        self.read.append(topic)
        if self.fails:
            raise StoreError("away")
        return {"same": topic[1], "number": str(len(self.read))}


async def first(stream: AsyncIterator[dict[str, str]]) -> dict[str, str]:
    async with asyncio.timeout(60):
        return await anext(stream)


def test_many_pages_cost_one_reading() -> None:
    async def run() -> None:
        source = Source()
        sampler = Sampler(source, 0.01)
        streams = [sampler.updates(("crawl", "a", "")) for _ in range(10)]
        got = await asyncio.gather(*(first(stream) for stream in streams))
        assert all(one["same"] == "a" for one in got) and len(source.read) < 5
        later = await first(streams[0])
        assert "same" not in later and int(later["number"]) > 1, "only what changed is sent"
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]
        async with asyncio.timeout(60):
            while sampler._task and not sampler._task.done():
                await asyncio.sleep(0.01)
        rested = len(source.read)
        await asyncio.sleep(0.05)
        assert len(source.read) == rested, "nobody looks, so nothing is read"
        again = sampler.updates(("crawl", "b", ""))
        assert (await first(again))["same"] == "b"
        await sampler.close()

    asyncio.run(run())


def test_a_stream_without_news_says_so() -> None:
    async def run() -> None:
        sampler = Sampler(Source(), seconds=3600, keep_seconds=0.01)
        stream = events(sampler, ("crawl", "a", ""))
        got = ""
        async with asyncio.timeout(60):
            while not got.endswith(": no news\n\n") or "data" not in got:
                got += await anext(stream)
        assert got.startswith("retry: ") and got.count("data: ") == 1
        await sampler.close()
        assert [one async for one in stream] == []

    asyncio.run(run())


def test_a_failure_is_told_and_ends() -> None:
    async def run() -> None:
        source = Source()
        source.fails = True
        sampler = Sampler(source, 0.01)
        stream = sampler.updates(("crawls", "", ""))
        assert await first(stream) == {"": "away"}
        source.fails = False
        async with asyncio.timeout(60):
            while (got := await anext(stream)).get("") != "":
                pass
        assert got["same"] == ""
        await sampler.close()

    asyncio.run(run())


def test_closing_ends_streams_that_wait() -> None:
    async def run() -> None:
        async def nothing(_: Topic) -> dict[str, str]:
            return {"a": "b"}

        sampler = Sampler(nothing, 3600)
        stream = sampler.updates(("crawls", "", ""))
        await first(stream)
        waiting = asyncio.create_task(first(stream))
        await asyncio.sleep(0)
        await sampler.close()
        async with asyncio.timeout(60):
            assert isinstance(await asyncio.gather(waiting, return_exceptions=True), list)
        assert isinstance(waiting.exception(), StopAsyncIteration)

    asyncio.run(run())
