"""The watcher of a crawl, on a real engine, database and mail server."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from redis import Redis

from tests.frontier.pages import page
from tests.mailserver import MailServer
from tests.metadata import NOW
from webcrawl.alarms.all_crawls import AllCrawls
from webcrawl.alarms.stuck import StuckPage, StuckPages
from webcrawl.alarms.watcher import ENGINE_SECONDS, About, Post, Watcher
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.errors import StoreError
from webcrawl.frontier import Crawl, Frontier

KEYS = Keys("crawl", 4)
ABOUT = About.of("crawl", "http://dashboard/")


class Clock:
    """The time of a watcher, which begins an hour ago."""

    def __init__(self) -> None:
        self.now = time.time() - 3600

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


@pytest.fixture
def post(tmp_path: Path, mail: MailServer, runner: asyncio.Runner) -> Iterator[Post]:
    post = Post(f"sqlite:///{tmp_path}/metadata.db", [mail.url])
    yield post
    runner.run(post.close(30))


@pytest.fixture
def engine(engine_at: Callable[..., Engine], redis_url: str) -> Engine:
    return engine_at(redis_url)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watcher_of(engine: Engine, post: Post, clock: Clock) -> Callable[[str], Watcher]:
    def make(process: str) -> Watcher:
        frontier, crawl = Frontier(engine, KEYS, process), Crawl(engine, KEYS, process, 60.0)
        return Watcher(frontier, crawl, post, ABOUT, clock=clock)

    return make


def titles(post: Post) -> list[str]:
    return [stored.notice.title for stored in reversed(post.outbox.notices())]


def kill(valkey: Redis, *workers: str) -> None:
    """What the engine knows after these workers died a minute ago."""
    died = int((time.time() - 60) * 1000)
    valkey.hset(KEYS.own("lost"), mapping=dict.fromkeys(workers, died))


async def look(watcher: Watcher, clock: Clock, seconds: float) -> None:
    """Looks every few seconds."""
    for _ in range(int(seconds / 5)):
        clock.now += 5
        await watcher.look()


async def test_lost_workers_are_told_once_by_whoever_watches(
    watcher_of: Callable[[str], Watcher], post: Post, clock: Clock, valkey: Redis, mail: MailServer
) -> None:
    one, two = watcher_of("one"), watcher_of("two")
    assert await one.look()
    assert not await two.look(), "another process watches"
    kill(valkey, "w1", "w2")
    await look(one, clock, 5)
    valkey.delete(KEYS.own("watcher"))  # `one` was killed, and its time is over
    await look(two, clock, 30)
    assert titles(post) == ["crawl: 2 workers lost"]
    assert not valkey.exists(KEYS.own("lost"))
    post.send_soon()
    await asyncio.to_thread(mail.wait, lambda: len(mail.letters) == 1)
    assert "http://dashboard/crawls/crawl" in mail.letters[0].text


async def test_the_workers_that_are_left_are_told(
    watcher_of: Callable[[str], Watcher], post: Post, clock: Clock, valkey: Redis, engine: Engine
) -> None:
    watcher = watcher_of("one")
    await Crawl(engine, KEYS, "alive", 60.0).workers.beat()
    kill(valkey, "w1")
    await look(watcher, clock, 30)
    (told,) = (stored.notice.text for stored in post.outbox.notices())
    assert "The URLs that they had leased go to 1 other worker." in told


async def test_what_the_database_did_not_take_is_told_later(
    watcher_of: Callable[[str], Watcher], post: Post, clock: Clock, valkey: Redis, tmp_path: Path
) -> None:
    watcher = watcher_of("one")
    kill(valkey, "w1")
    await look(watcher, clock, 5)
    with closing(sqlite3.connect(tmp_path / "metadata.db", isolation_level=None)) as database:
        database.execute("ALTER TABLE notices RENAME TO away")
        clock.now += 20
        for _ in range(2):
            with pytest.raises(StoreError, match="no such table"):
                await watcher.look()
        assert valkey.exists(KEYS.own("lost"))
        database.execute("ALTER TABLE away RENAME TO notices")
    await look(watcher, clock, 20)
    assert titles(post) == ["crawl: 1 worker lost"]


async def test_stuck_pages_are_told_with_examples_and_marked(
    watcher_of: Callable[[str], Watcher], post: Post, clock: Clock
) -> None:
    watcher = watcher_of("one")
    pages = [StuckPage("crawl", f"http://a/{number}", "SCHEMA", "why", NOW, NOW) for number in range(12)]
    post.stuck.add(pages)
    await look(watcher, clock, 60)
    (stored,) = post.outbox.notices()
    assert stored.notice.kind == "SCHEMA" and "12 pages" in stored.notice.title
    assert stored.notice.text.count(": why") == 10
    assert stored.notice.text.startswith("`scrapy stuck crawl` lists them.\n")
    assert post.stuck.count_untold("crawl") == {}


async def test_pages_that_get_stuck_while_others_are_told_are_told_later(
    watcher_of: Callable[[str], Watcher], post: Post, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pages(*numbers: int) -> list[StuckPage]:
        times = {number: NOW + timedelta(seconds=number) for number in numbers}
        return [
            StuckPage("crawl", f"http://a/{number}", "SCHEMA", "why", then, then)
            for number, then in times.items()
        ]

    count = StuckPages.count_untold

    def counted_early(stuck: StuckPages, crawl: str) -> object:
        """Counts, and then a worker adds pages."""
        untold = count(stuck, crawl)
        stuck.add(pages(*range(3, 50)))
        return untold

    post.stuck.add(pages(*range(3)))
    monkeypatch.setattr(StuckPages, "count_untold", counted_early)
    await watcher_of("one").finish("finished", "the summary")
    monkeypatch.undo()
    (stored,) = post.outbox.notices()
    assert "of kind SCHEMA without a notification: 3\n" in stored.notice.text
    assert post.stuck.count_untold("crawl")["SCHEMA"].number == 47


async def test_the_end_is_told_once_with_what_was_not_told(
    watcher_of: Callable[[str], Watcher], post: Post, valkey: Redis
) -> None:
    one, two = watcher_of("one"), watcher_of("two")
    kill(valkey, "w1")
    post.stuck.add([StuckPage("crawl", "http://a/", "DOCUMENT", "broken", NOW, NOW)])
    await asyncio.gather(one.finish("finished", "the summary"), two.finish("finished", "the summary"))
    (stored,) = post.outbox.notices()
    assert stored.notice.title == "crawl: crawl finished with 0 pages"
    assert "the summary" in stored.notice.text and "http://a/: broken" in stored.notice.text
    assert "Workers that ended without signing off: w1" in stored.notice.text
    assert post.stuck.count_untold("crawl") == {}
    assert not valkey.exists(KEYS.own("lost"))


async def test_a_silent_engine_is_told_by_the_process_that_watched(
    watcher_of: Callable[[str], Watcher],
    post: Post,
    clock: Clock,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = watcher_of("one"), watcher_of("two")
    await one.look()
    await two.look()

    async def fail(*_: object) -> None:
        raise ConnectionError("connection refused")

    monkeypatch.setattr(type(engine), "run", fail)
    for _ in range(3):
        clock.now += ENGINE_SECONDS / 2 + 1
        await one.look()
        await two.look()
    assert titles(post) == ["crawl: the engine does not answer"]
    monkeypatch.undo()
    await look(one, clock, 10)
    assert len(titles(post)) == 1


async def test_crawls_are_watched_from_outside(
    engine: Engine, post: Post, clock: Clock, valkey: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose only worker died, when no heartbeat notices that."""
    monkeypatch.setattr("webcrawl.alarms.all_crawls.LOOK_SECONDS", 0.01)
    for name in ("crawl", "other", "quiet"):
        crawl = Crawl(engine, Keys(name, 4), f"worker of {name}", 60.0)
        await crawl.begin()
        if name != "quiet":
            await crawl.workers.beat()
            valkey.zadd(crawl.keys.own("workers"), {f"worker of {name}": (time.time() - 60) * 1000})
    mine = Crawl(engine, Keys("mine", 4), "watcher", 60.0)
    crawls = AllCrawls(
        Frontier(engine, mine.keys, "watcher"), mine, post, lambda name: About(name), clock=clock
    )
    for _ in range(4):
        clock.now += 5
        await crawls.look()
    assert sorted(titles(post)) == ["crawl: 1 worker lost", "other: 1 worker lost"]
    assert not valkey.exists("wc:{c:quiet}:watcher")
    ending = asyncio.Event()
    running = asyncio.create_task(crawls.run(ending))
    await asyncio.sleep(0.05)
    ending.set()
    await running
    assert not valkey.exists(KEYS.own("watcher")), "the lock is given back"


async def test_hosts_that_were_given_up_are_named(
    watcher_of: Callable[[str], Watcher], engine: Engine, post: Post, clock: Clock
) -> None:
    watcher, crawl = watcher_of("one"), Crawl(engine, KEYS, "worker", 60.0)
    await engine.run(
        crawl.workers.tally({"hosts_given_up": 2, "given_up.http://b.test": 1, "given_up.http://a.test": 1})
    )
    await look(watcher, clock, 60)
    (stored,) = post.outbox.notices()
    assert (stored.notice.kind, stored.notice.title) == ("HOSTS", "crawl: 2 hosts given up")
    assert stored.notice.text.splitlines()[1:] == ["http://a.test", "http://b.test"]


async def test_a_surge_of_errors_and_a_stall_are_seen_in_the_figures(
    watcher_of: Callable[[str], Watcher], engine: Engine, post: Post, clock: Clock
) -> None:
    """As the totals of the workers tell them, of whom one has something left to do."""
    watcher, crawl = watcher_of("one"), Crawl(engine, KEYS, "worker", 3600.0)
    await crawl.begin()
    await crawl.workers.beat()
    await Frontier(engine, KEYS, "worker").add([page("http://a.test/")])
    for minute in range(12):
        await engine.run(crawl.workers.tally({"status.200": 95, "status.503": 5 if minute < 10 else 95}))
        await look(watcher, clock, 65)
    assert [stored.notice.kind for stored in post.outbox.notices()] == ["ERRORS"]
    await look(watcher, clock, 500)
    assert len(titles(post)) == 1
    await look(watcher, clock, 100)
    kinds = [stored.notice.kind for stored in post.outbox.notices()]
    assert kinds == ["STALLED", "ERRORS"], titles(post)
