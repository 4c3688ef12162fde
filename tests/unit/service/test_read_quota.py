"""The URLs that wait to be read are counted for the token that asked."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from webcrawl.service.caller import Caller
from webcrawl.service.fetch_pages import WantedPages, _FetchedPages
from webcrawl.service.fetches import FetchRequest, LiveFetch
from webcrawl.service.page_reader import PageReader
from webcrawl.service.problem import ApiProblem
from webcrawl.service.tally import ServiceTally
from webcrawl.web.access import Role

URLS = [f"http://a.example/{number}" for number in range(8_000)]


def test_a_token_that_fetches_refuses_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(ask(monkeypatch))


async def ask(monkeypatch: pytest.MonkeyPatch) -> None:
    release = asyncio.Event()

    async def slow(reader: PageReader, urls: Any, *, history: bool) -> dict[str, Any]:
        await release.wait()
        return {}

    monkeypatch.setattr(PageReader, "_pages", slow)
    opened: Any = SimpleNamespace()
    reader = PageReader(opened, ServiceTally())
    ages = SimpleNamespace(wanted=lambda url, age: 60.0)
    service: Any = SimpleNamespace(pages=reader, ages=ages)
    nothing: Any = None
    endpoint = _FetchedPages(service, nothing, nothing)

    def fetch(name: str, urls: list[str]) -> asyncio.Task[Any]:
        call: Any = SimpleNamespace(body=WantedPages(urls=urls), caller=Caller(name, Role.READER))
        return asyncio.create_task(endpoint.fetch(call))

    def shown(name: str, urls: list[str]) -> asyncio.Task[Any]:
        ages_of = dict.fromkeys(urls, 60.0)
        request = FetchRequest(
            name, time.time(), urls, dict(zip(urls, urls, strict=True)), ages_of, ["metadata"]
        )
        return asyncio.create_task(endpoint._answer(LiveFetch("1", request, set())))

    tasks = [fetch("first", URLS)]
    await asyncio.sleep(0)
    tasks += [fetch("second", URLS[:1]), shown("third", URLS[:1])]
    refused = [fetch("first", URLS[:1]), shown("first", URLS[:1])]
    await asyncio.wait(refused, timeout=5)
    assert not any(task.done() for task in tasks)
    for task in refused:
        assert isinstance(task.exception(), ApiProblem) and "wait to be read" in str(task.exception())
    release.set()
    await asyncio.wait(tasks)
    assert [isinstance(task.exception(), ApiProblem) for task in tasks] == [True, True, False]
