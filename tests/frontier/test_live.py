"""The live lane in the engine: who waits for which URL, its stream, and its turns before those of other crawls."""

from __future__ import annotations

import asyncio
import errno
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import redis.asyncio
from hypothesis import HealthCheck, given, settings, strategies as st
from redis import Redis

from webcrawl.engine.channel import hear
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import ASKED, WANTED
from webcrawl.errors import LiveLaneFull, WrongMessage
from webcrawl.frontier import Candidate, Frontier, Lease, LeasedURL, LeaseReport, Settlement
from webcrawl.live.asks import Asks, LiveAsk, WantedURL
from webcrawl.live.events import LiveAnswer, events
from webcrawl.live.lane import LiveLane
from webcrawl.live.messages import Delivered, LiveMessages
from webcrawl.live.request import LiveRequest
from webcrawl.live.sweeping import sweep

A, B = "http://a.test/1", "http://b.test/1"


def ask(number: int, url: str = A, **more: object) -> LiveAsk:
    return LiveAsk(f"{number}-0", 0, 1, url, float(number), id=str(number), **more)  # type: ignore[arg-type]


async def test_a_url_is_queued_for_the_first_who_asks_and_again_when_nobody_waits(frontier: Frontier) -> None:
    asks = Asks(frontier.engine, frontier.keys)
    assert await asks.add([WantedURL(A, ask(1)), WantedURL(B, ask(2))])
    assert not await asks.add([WantedURL(A, ask(3, chain=(B,)))])
    assert not await asks.add([WantedURL(A, ask(3, chain=(B,)))])
    assert (await frontier.counts()).queued == 2
    waiting = await asks.of(A)
    assert {each.id for each in waiting} == {"1", "3"}
    assert next(each for each in waiting if each.id == "3") == ask(3, chain=(B,))
    assert set(await asks.of_host("http://a.test")) == {A}
    assert await asks.remove(A, [ask(1)])
    assert not await asks.remove(A, [ask(3)])
    assert await asks.of(A) == []
    assert await asks.add([WantedURL(A, ask(4))])
    assert await asks.add([WantedURL(A, ask(4), again=True)])
    assert (await frontier.counts()).queued == 4


async def test_urls_of_the_lane_leave_nothing_in_the_seen_set(frontier: Frontier) -> None:
    await Asks(frontier.engine, frontier.keys).add([WantedURL(A, ask(1))])
    assert (await frontier.counts()).seen == 0


async def test_a_crawl_of_weight_0_has_the_next_turn_and_says_so(
    frontier_of: Callable[..., Frontier],
) -> None:
    broad, lane = frontier_of("broad"), frontier_of("live", weight=0.0)
    await broad.add([Candidate("http://a.test", f"/{n}", n) for n in range(20)])
    (held,) = await broad.lease(1, 5)
    await lane.add([Candidate("http://a.test", "/live", 99)])
    heard: list[bytes] = []
    hearing = asyncio.create_task(hear(broad.engine, WANTED, heard.append))
    while not heard:
        assert await lane.lease(1, 5) == []
        await asyncio.sleep(0.25)
    hearing.cancel()
    assert heard[0] == b"a.test"
    # the holder gets no further URLs
    assert await broad.acknowledge(held, [Settlement(held.urls[0].index)], more=5) == []
    assert await broad.release(held)
    assert await broad.lease(1, 5) == []
    await asyncio.sleep(0.25)
    (live,) = await lane.lease(1, 5)
    assert [url.path for url in live.urls] == ["/live"]
    assert await lane.release(live, [Settlement(live.urls[0].index)])
    assert len(await broad.lease(1, 5)) == 1


async def hand_over(frontier: Frontier, lease: Lease, back: Sequence[int]) -> list[LeasedURL] | None:
    replies: list[list[LeasedURL] | None] = []
    settled = [Settlement(index, "back") for index in back]
    report = LeaseReport(lease, settled, pause=0.0, lets_go=True)
    await frontier.settle_all([report], lambda _, urls, __: replies.append(urls))
    return replies[0]


async def test_a_host_is_handed_over_before_all_its_urls_are_settled(
    frontier_of: Callable[..., Frontier],
) -> None:
    broad, lane = frontier_of("broad"), frontier_of("live", weight=0.0)
    await broad.add([Candidate("http://a.test", f"/{n}", n) for n in range(20)])
    (held,) = await broad.lease(1, 5)
    for _ in range(2):  # the first reply is lost
        assert await hand_over(broad, held, [url.index for url in held.urls[2:]]) == []
    counts = await broad.counts()
    assert (counts.queued, counts.leased) == (18, 2)
    await lane.add([Candidate("http://a.test", "/live", 99)])
    (live,) = await lane.lease(1, 5)

    # the lease goes on for what is processed, and touches neither the host nor its queue
    assert await broad.extend([held]) == set()
    assert await broad.lease(1, 5) == []
    assert await broad.acknowledge(held, [Settlement(held.urls[0].index)], more=5) == []
    assert await lane.acknowledge(live, [], more=0) == []
    assert await lane.release(live, [Settlement(live.urls[0].index)])
    assert await broad.lease(1, 5) == []

    assert await broad.release(held, [Settlement(held.urls[1].index)])
    (again,) = await broad.lease(1, 5)
    assert [url.path for url in again.urls] == ["/2", "/3", "/4", "/5", "/6"]
    assert (await broad.counts()).done == 2
    assert not await broad.release(held)


async def test_reaping_a_lease_that_let_go_of_its_host_leaves_the_host_to_its_holder(
    frontier_of: Callable[..., Frontier],
) -> None:
    broad, lane = frontier_of("broad", lease_seconds=0.1), frontier_of("live", weight=0.0)
    await broad.add([Candidate("http://a.test", f"/{n}", n) for n in range(5)])
    (held,) = await broad.lease(1, 5)
    await hand_over(broad, held, [url.index for url in held.urls[2:]])
    await lane.add([Candidate("http://a.test", "/live", 99)])
    (live,) = await lane.lease(1, 5)
    await asyncio.sleep(0.15)
    assert await broad.reap() == (1, 0)
    assert await broad.acknowledge(held, [Settlement(held.urls[0].index)]) is None
    assert (await broad.counts()).queued == 5
    assert await broad.lease(1, 5) == []
    assert await lane.release(live, [Settlement(live.urls[0].index)])


async def test_the_lane_is_told_when_a_host_is_free_for_which_it_waits(
    frontier_of: Callable[..., Frontier],
) -> None:
    broad, lane = frontier_of("broad"), frontier_of("live", weight=0.0)
    await broad.add([Candidate("http://a.test", "/", 1)])
    (held,) = await broad.lease(1, 5)
    await lane.add([Candidate("http://a.test", "/live", 99)])
    heard: list[bytes] = []
    hearing = asyncio.create_task(hear(lane.engine, ASKED, heard.append))
    while await lane.engine.client.pubsub_numsub(ASKED) != [(ASKED.encode(), 1)]:
        await asyncio.sleep(0.01)
    assert await lane.lease(1, 5) == []
    assert not heard
    await hand_over(broad, held, [])
    while not heard:
        await asyncio.sleep(0.01)
    hearing.cancel()


async def test_a_full_lane_takes_no_message_and_says_when_to_come_again(
    engine_at: Callable[..., Engine], redis_url: str, valkey: Redis
) -> None:
    lane = LiveLane(engine_at(redis_url), most=3)
    request = LiveRequest((A,), id="x")
    assert len(await lane.put([request, request])) == 2
    with pytest.raises(LiveLaneFull) as error:
        await lane.put([request, request])
    assert error.value.retry_after >= 1
    assert valkey.xlen("live:urls") == await lane.waiting() == 2
    valkey.xtrim("live:urls", maxlen=0, approximate=False)
    assert len(await lane.put([request] * 3)) == 3


async def test_messages_of_a_lost_reply_are_delivered_again_and_others_are_not(
    frontier: Frontier, valkey: Redis
) -> None:
    counters = Counter[str]()
    messages = LiveMessages(frontier.engine, "live:urls", "worker", counters)
    await messages.begin()

    def put(*names: str) -> None:
        for name in names:
            valkey.xadd("live:urls", {"url": f"http://{name}.test/"})

    def urls(delivered: list[Delivered]) -> list[str]:
        return [url for message in delivered for url in message.request.urls]

    put("a", "b")
    messages.taken(await messages.read())
    assert await messages.untaken() == []
    put("c", "d")
    # the server delivers them, and its reply is lost
    assert valkey.xreadgroup("live", "worker", {"live:urls": ">"})
    valkey.xadd("live:urls", {"nothing": "1"})
    put("e")
    valkey.xreadgroup("live", "another", {"live:urls": ">"}, count=1)
    for _ in range(2):  # their URLs could not be asked for
        lacking = await messages.untaken()
        assert urls(lacking) == ["http://c.test/", "http://d.test/"]
    messages.taken(lacking)
    assert await messages.untaken() == []
    new = await messages.read()
    assert urls(new) == ["http://e.test/"]
    messages.taken(new)
    assert counters["live_messages"] == 5


async def test_messages_of_a_dead_worker_are_delivered_again_and_wrong_ones_are_put_aside(
    engine_at: Callable[..., Engine], redis_url: str, valkey: Redis
) -> None:
    engine = engine_at(redis_url)
    counters = Counter[str]()
    first, second = (LiveMessages(engine, "live:urls", name, counters) for name in ("first", "second"))
    await first.begin()
    await second.begin()
    await LiveLane(engine).put([LiveRequest((A,), id="x", meta={"n": 1})])
    valkey.xadd("live:urls", {"url": A, "max_age": "soon"})
    (delivered,) = await first.read()
    assert delivered.request == LiveRequest((A,), id="x", meta={"n": 1})
    first.taken([delivered])
    assert await second.claim({"first"}) == []
    assert await second.claim(set()) == [delivered]
    assert await second.claim(set()) == []
    assert [each["name"] for each in valkey.xinfo_consumers("live:urls", "live")] == [b"second"]
    assert counters == {"live_messages": 2, "live_dead_messages": 1}
    ((_, dead),) = valkey.xrange("live:dead")
    assert dead[b"error"] == b"max_age is seconds of at least 0, or such as 90s, 5m, 2h or 7d, not 'soon'"
    assert json.loads(dead[b"message"]) == {"url": A, "max_age": "soon"}


async def test_messages_of_a_living_worker_stay_its_own_and_are_looked_at_again_after_a_while(
    engine_at: Callable[..., Engine], redis_url: str, valkey: Redis
) -> None:
    engine = engine_at(redis_url)
    first, second = (LiveMessages(engine, "live:urls", name, Counter()) for name in ("first", "second"))
    await first.begin()
    await LiveLane(engine).put([LiveRequest((A,)), LiveRequest((B,))])
    delivered = await first.read()
    first.taken(delivered)
    assert await first.long_pending(600) == []
    await asyncio.sleep(0.06)
    assert await second.long_pending(0.05) == await second.claim({"first"}) == []
    valkey.xack("live:urls", "live", delivered[0].number)
    assert await first.long_pending(0.05) == delivered[1:]
    assert await first.long_pending(600) == []
    # a worker that only seemed dead reads on, and its messages are not forgotten with it
    assert await second.claim(set()) == delivered[1:]
    assert await first.long_pending(0) == []
    await LiveLane(engine).put([LiveRequest((A,))])
    later = await first.read()
    assert await second.claim(set()) == later
    assert await second.claim(set()) == []


async def test_entries_that_are_queued_again_are_looked_at_before_they_are_fetched(
    frontier: Frontier,
) -> None:
    asks = Asks(frontier.engine, frontier.keys)
    assert await asks.add([WantedURL(A, ask(1)), WantedURL(B, ask(2), again=True)])
    returns = {url.url: url.returns for lease in await frontier.lease(2, 1) for url in lease.urls}
    assert returns == {A: 0, B: 1}


async def test_idle_hosts_are_forgotten(frontier: Frontier, valkey: Redis) -> None:
    await frontier.add([Candidate(f"http://{name}.test", "/", number) for number, name in enumerate("ab")])
    await frontier.add([Candidate("http://b.test", "/more", 7)])
    for lease in await frontier.lease(2, 1):
        assert await frontier.release(lease, [Settlement(lease.urls[0].index, pages=1, bytes=10)])
    assert await sweep(frontier.engine, frontier.keys) == 1
    spent = [host for shard in range(4) for host in valkey.hkeys(f"wc:{{s{shard}}}:c:crawl:spent")]
    assert spent == [b"http://b.test"]


_text = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), max_size=20)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(_text.filter(str), min_size=1, max_size=5, unique=True),
    st.integers(0, 7),
    st.floats(0, 1e9),
    st.booleans(),
    st.dictionaries(_text, st.integers() | _text, max_size=3),
)
def test_a_message_is_read_as_it_was_written(
    urls: list[str], level: int, age: float, render: bool, meta: dict[str, object]
) -> None:
    request = LiveRequest(
        tuple(urls), "id", "tag", level, float(f"{age:g}"), frozenset({"image"}), render, meta
    )
    message = {name.encode(): value.encode() for name, value in request.to_message().items()}
    assert LiveRequest.from_message(message) == request
    assert LiveRequest.from_message({b"url": b"/", b"max_age": b"2h"}).max_age == 7200


@given(
    st.dictionaries(
        st.sampled_from([b"url", b"urls", b"text", b"id", b"level", b"max_age", b"render", b"meta", b"x"]),
        st.binary(max_size=30),
    )
)
@settings(max_examples=50, deadline=None)
def test_any_message_is_read_or_refused_with_a_reason(message: dict[bytes, bytes]) -> None:
    try:
        assert LiveRequest.from_message(message).urls
    except WrongMessage as error:
        assert str(error)


def test_events_are_for_each_url_as_asked() -> None:
    row = {"status": 200, "url": B, "final_url": B, "title": "T", "error": None}
    asks = [ask(1), ask(2), ask(3, "http://a.test/1#x"), ask(4, meta='{"n":1}')]
    published = [json.loads(event) for event in events(asks, LiveAnswer.of_row(row))]
    assert [event["ids"] for event in published] == [["1", "2"], ["3"], ["4"]]
    assert {event["page"]["title"] for event in published} == {"T"}
    assert [event["meta"] for event in published] == [{}, {}, {"n": 1}]


async def test_a_connection_that_the_system_gave_up_is_opened_again(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the client, the error ETIMEDOUT of a connection looks like a time without a message."""
    opened: list[Any] = []
    pubsub = redis.asyncio.Redis.pubsub

    def watched(client: redis.asyncio.Redis) -> Any:
        opened.append(pubsub(client))
        return opened[-1]

    monkeypatch.setattr(redis.asyncio.Redis, "pubsub", watched)
    heard: list[bytes] = []
    hearing = asyncio.create_task(hear(frontier.engine, "any", heard.append))
    try:
        async with asyncio.timeout(30):
            for number in range(2):
                while len(heard) <= number:
                    await frontier.engine.client.publish("any", number)
                    await asyncio.sleep(0.02)
                opened[-1].connection._reader.set_exception(OSError(errno.ETIMEDOUT, "Connection timed out"))
    finally:
        hearing.cancel()


async def test_a_reader_of_messages_ends_whenever_it_is_cancelled(frontier: Frontier) -> None:
    for steps in range(60):
        task = asyncio.create_task(hear(frontier.engine, "any", lambda message: None))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=5)
        assert done and task.cancelled(), steps
