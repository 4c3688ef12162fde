"""What hosts answer to paths that cannot exist, in the engine."""

from __future__ import annotations

from dataclasses import replace

from tests.frontier.copying import Frontiers, copied
from webcrawl.engine.keys import Keys
from webcrawl.frontier.host_answers import UnknownPaths
from webcrawl.policies.soft_404 import Print, UnknownPathAnswer

HOST = "http://a.test"
ANSWER = UnknownPathAnswer(200, Print(1, 2, 2**64 - 1))


async def test_one_worker_asks_a_host_and_all_know_the_answer(frontier_of: Frontiers) -> None:
    frontier = frontier_of()
    one, other = (UnknownPaths(frontier.engine, frontier.keys, name) for name in ("w1", "w2"))
    assert await one.of(HOST) is None
    assert await one.claim(HOST)
    assert await one.claim(HOST), "a call may be repeated"
    assert not await other.claim(HOST)
    assert await other.claim("http://b.test")
    await one.leave(HOST)
    assert await other.claim(HOST)
    await one.keep(HOST, ANSWER)
    assert await other.of(HOST) == ANSWER
    assert (await frontier.host(HOST)).unknown_paths == ANSWER.about()
    assert (await frontier.host("http://b.test")).unknown_paths is None


async def test_answers_are_part_of_a_checkpoint(frontier_of: Frontiers) -> None:
    one = frontier_of()
    crawl, copy = replace(one, keys=Keys("crawl", 2)), replace(one, keys=Keys("copy", 3))
    paths = UnknownPaths(crawl.engine, crawl.keys, "w1")
    for number in range(9):
        await paths.keep(
            f"{HOST}:{number}", UnknownPathAnswer(404 if number else 200, target=f"{HOST}/{number}")
        )
    await copied(crawl, copy)
    restored = UnknownPaths(copy.engine, copy.keys, "w1")
    for number in range(9):
        assert await restored.of(f"{HOST}:{number}") == await paths.of(f"{HOST}:{number}")
