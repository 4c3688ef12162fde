"""What a worker knows of its hosts to recognize soft 404s."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.frontier.copying import Frontiers
from webcrawl.documents.page import Page
from webcrawl.frontier import Frontier
from webcrawl.frontier.host_answers import UnknownPaths
from webcrawl.policies.soft_404 import LEAST_PAGES, Print, UnknownPathAnswer
from webcrawl.worker.soft_404s import Soft404s

HOST = "http://a.test"
SAME = Print(2**63)


def page(path: str, status: int = 200, final: str = "") -> Page:
    now = datetime.now(UTC)
    return Page(
        url=HOST + path, final_url=final, host=HOST, fetched_at=now, status=status, mime_type="text/html"
    )


@dataclass
class Asked:
    """A host that answers one question after another, each after other tasks have run."""

    answer: UnknownPathAnswer | None
    times: int = 0

    async def __call__(self, _: Page) -> UnknownPathAnswer | None:
        self.times += 1
        await asyncio.sleep(0.01)
        return self.answer


async def at_once(work: Callable[[], Awaitable[Any]]) -> Any:
    return await work()


def of_worker(frontier: Frontier, name: str = "w1", *, older: bool = False) -> Soft404s:
    return Soft404s(UnknownPaths(frontier.engine, frontier.keys, name), 3, at_once, older=older)


async def show(hosts: Soft404s, ask: Asked, pages: int = LEAST_PAGES, first: int = 0) -> list[bool]:
    """Judges pages that differ, all at once."""
    shown = [hosts.judge(page(f"/{n}"), Print(n + 1), ask) for n in range(first, first + pages)]
    return await asyncio.gather(*shown)


async def test_pages_wait_while_their_host_is_asked(frontier_of: Frontiers) -> None:
    hosts, ask = of_worker(frontier_of()), Asked(UnknownPathAnswer(200, SAME))
    assert not hosts.is_awaited(page("/x"))
    assert not any(await show(hosts, ask))
    assert (ask.times, hosts.is_awaited(page("/x")), hosts.is_awaited(page("/"))) == (0, True, False)
    looks = [SAME, Print(5), SAME]
    judged = await asyncio.gather(*(hosts.judge(page(f"/x{n}"), look, ask) for n, look in enumerate(looks)))
    assert (judged, ask.times) == ([True, False, True], 1)
    assert not await hosts.judge(page("/"), SAME, ask), "the start page is none"


async def test_a_worker_that_may_not_ask_looks_again_later(frontier_of: Frontiers) -> None:
    frontier = frontier_of()
    one, other, ask = of_worker(frontier), of_worker(frontier, "w2"), Asked(UnknownPathAnswer(200, SAME))
    paths = UnknownPaths(frontier.engine, frontier.keys, "w1")
    assert await paths.claim(HOST)
    await show(other, ask, LEAST_PAGES + 1)
    assert ask.times == 0
    await show(one, ask, LEAST_PAGES + 1)
    assert ask.times == 1
    await show(other, ask, LEAST_PAGES)
    assert await other.judge(page("/x"), SAME, ask)
    assert ask.times == 1
    assert await of_worker(frontier, "w3", older=True).judge(page("/x"), SAME, ask), "the first page it sees"


async def test_a_crawl_that_ends_leaves_the_question_to_the_next_run(frontier_of: Frontiers) -> None:
    frontier, ends, ask = frontier_of(), Asked(None), Asked(UnknownPathAnswer(404))
    await show(of_worker(frontier), ends, LEAST_PAGES + 1)
    await show(of_worker(frontier, "w2", older=True), ask, LEAST_PAGES + 1)
    assert (ends.times, ask.times) == (1, 1)


@pytest.mark.parametrize("alike", [LEAST_PAGES // 2, LEAST_PAGES // 2 + 1])
async def test_a_shell_is_known_by_most_pages(frontier_of: Frontiers, alike: int) -> None:
    hosts, ask = of_worker(frontier_of()), Asked(UnknownPathAnswer(200, SAME))
    for number in range(LEAST_PAGES):
        await hosts.judge(page(f"/{number}"), SAME if number < alike else Print(number + 1), ask)
    assert await hosts.judge(page("/x"), SAME, ask) == (alike <= LEAST_PAGES // 2)
    assert hosts.is_open(page("/x")) == (alike <= LEAST_PAGES // 2)


async def test_copies_of_an_error_page_are_errors(frontier_of: Frontiers) -> None:
    hosts, ask = of_worker(frontier_of()), Asked(UnknownPathAnswer(200, Print(2**63, simhash=0b1000)))
    await show(hosts, ask)
    assert await hosts.judge(page("/x"), Print(77, simhash=0b1111), ask)
    assert await hosts.judge(page("/y"), Print(77), ask), "it was not read again"
    assert not await hosts.judge(page("/z"), Print(78), ask)


async def test_only_redirects_to_the_same_place_are_errors(frontier_of: Frontiers) -> None:
    hosts, ask, target = (
        of_worker(frontier_of()),
        Asked(UnknownPathAnswer(302, target=f"{HOST}/sorry")),
        f"{HOST}/sorry",
    )
    assert not await hosts.is_error_redirect(page("/a", 302, target)), "the host was not asked"
    await show(hosts, ask)
    asking = asyncio.ensure_future(hosts.judge(page("/x"), SAME, ask))
    await asyncio.sleep(0)
    assert await hosts.is_error_redirect(page("/a", 302, target)), "it waits for the answer"
    assert not await asking
    assert not await hosts.is_error_redirect(page("/a", 302, f"{HOST}/b"))
    assert not await hosts.is_error_redirect(page("/", 302, target))
    assert not await hosts.is_error_redirect(page("/sorry", 304)), "an unchanged page is no redirect"
