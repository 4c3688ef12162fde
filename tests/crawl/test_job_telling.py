"""What schedulers tell the people of a job: lost workers, failures, missed firings, what crawls could not send."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy.settings import Settings

from tests.crawl.upkeep import NOW, Upkeep
from tests.crawls import CHECKOUT, NO_NAMES
from tests.web import LocalWeb, Reply
from webcrawl.alarms.outbox import Notice, Outbox
from webcrawl.engine.keys import Keys
from webcrawl.jobs.children import Children
from webcrawl.jobs.crawls import JobCrawls
from webcrawl.jobs.daemon import Starting
from webcrawl.jobs.firing import fire
from webcrawl.jobs.records import Iteration, IterationCounts, IterationState, finish_reason
from webcrawl.jobs.watching import Watching

SITE = "127.0.1.1"


@pytest.fixture
def upkeep(tmp_path: Path, redis_url: str) -> Upkeep:
    return Upkeep(tmp_path, redis_url)


@pytest.fixture
def web(local_web: Callable[..., LocalWeb]) -> LocalWeb:
    """A web whose page /tell receives notifications."""
    web = local_web(SITE)
    web.put(SITE, "/tell", "thanks")
    return web


@pytest.fixture
def lifeline() -> Iterator[int]:
    reading, writing = os.pipe()
    yield reading
    for descriptor in (reading, writing):
        os.close(descriptor)


def target(web: LocalWeb, user: str = "") -> str:
    """The Apprise URL of /tell."""
    return web.url(SITE, "/tell").replace("http://", f"json://{user}")


def told(web: LocalWeb) -> list[dict[str, Any]]:
    return [json.loads(hit.body) for hit in web.hits if hit.path == "/tell"]


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_death_of_the_only_worker_is_told(
    upkeep: Upkeep,
    web: LocalWeb,
    lifeline: int,
    valkey: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its scheduler, once, with the name of the job; no other user could read secrets of the worker."""
    monkeypatch.chdir(CHECKOUT)
    web.put(SITE, "/", "".join(f"<a href=/{number}>x</a>" for number in range(99)))
    for number in range(99):
        web.put(SITE, f"/{number}", Reply("page", delay=1.0))
    values = {**upkeep.values, "DNS_SERVERS": NO_NAMES, "DASHBOARD_URL": "http://pages.example"}
    given = [word for name, value in values.items() for word in ("-s", f"{name}={value}")]
    crawls = JobCrawls(Settings({**values, **upkeep.parts}), given)
    definition = upkeep.job(
        seeds=[web.url(SITE, "/")],
        notify=[target(web, "user:s3cret@")],
        settings={"FTP_PASSWORD": "s3cret"},
        arguments={"scope": "host"},
    )
    one = upkeep.claims.take(upkeep.store.run("news", NOW), str(upkeep.folder / "one"), NOW)
    assert one is not None
    clock = iter(range(3600, 0, -5))  # an hour ago, and faster
    starting = Starting(crawls, Watching("scheduler", clock=lambda: time.time() - next(clock)), lifeline, 1)

    async def run() -> None:
        workers = await starting.start(definition, one)
        assert isinstance(workers, Children)
        (process,) = workers._processes
        try:
            await asyncio.to_thread(until, lambda: len(web.hits) > 2)
            assert (await starting.look(definition, one, ended=False)).working == 1
            command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            assert b"s3cret" not in command and b"CRAWL_ID=" in command
            os.kill(process.pid, signal.SIGKILL)
        finally:
            process.kill()
            process.wait(60)
        # a while later, for the engine
        own = Keys(one.crawl, 4).own
        (worker,) = valkey.zrange(own("workers"), 0, -1)
        valkey.zadd(own("workers"), {worker: (time.time() - 60) * 1000})
        valkey.delete(own("watcher"))
        for _ in range(4):
            await starting.look(definition, one, ended=False)
        await asyncio.to_thread(until, lambda: told(web))
        await starting.look(definition, one, ended=True)

    asyncio.run(run())
    (letter,) = told(web)
    assert letter["title"] == "news: 1 worker lost"
    assert f"Crawl {one.crawl} of job news." in letter["message"]
    assert letter["message"].endswith(f"http://pages.example/crawls/{one.crawl}")


@pytest.mark.parametrize(
    ("missed", "last"), [("late", IterationState.WAITING), ("skip", IterationState.SKIPPED)]
)
def test_missed_firings_are_told_together_once(
    upkeep: Upkeep, web: LocalWeb, missed: str, last: IterationState
) -> None:
    upkeep.job(cron="0 * * * *", missed=missed, notify=[target(web)])
    on_time = NOW + timedelta(hours=1)
    (first,) = fire(upkeep.store, "news", on_time)
    taken = upkeep.claims.take(first, None, on_time)
    assert taken is not None
    upkeep.claims.end(taken, IterationState.FINISHED, "finished", None, on_time)
    asyncio.run(upkeep.sweeper.sweep([], on_time))
    assert told(web) == [], "it was on time"
    later = NOW + timedelta(hours=4, minutes=10)
    assert [one.state for one in fire(upkeep.store, "news", later)] == [
        IterationState.SKIPPED,
        IterationState.SKIPPED,
        last,
    ]
    for minutes in range(3):
        asyncio.run(upkeep.sweeper.sweep([], later + timedelta(minutes=minutes)))
    (letter,) = told(web)
    assert letter["title"] == "news: 3 firings missed"
    assert "3 firings came due, from 2026-03-01 08:00 UTC to 2026-03-01 10:00 UTC." in letter["message"]
    assert ("Iteration 4 runs late" in letter["message"]) == (missed == "late")
    assert f"{2 if missed == 'late' else 3} firings skipped." in letter["message"]


def fire_at(upkeep: Upkeep, hour: int) -> Iteration:
    """The iteration of the firing at an hour, which is on time, after the sweep of that minute."""
    now = NOW + timedelta(hours=hour)
    (one,) = fire(upkeep.store, "news", now)
    asyncio.run(upkeep.sweeper.sweep([], now))
    return one


@pytest.mark.parametrize("overlap", ["skip", "wait"])
def test_firings_skipped_by_a_long_iteration_are_told_together(
    upkeep: Upkeep, web: LocalWeb, overlap: str
) -> None:
    upkeep.job(cron="0 * * * *", overlap=overlap, notify=[target(web)])
    begun = upkeep.claims.take(fire_at(upkeep, 1), None, NOW + timedelta(hours=1))
    assert begun is not None
    upkeep.claims.beat(begun, IterationCounts(found=9, queued=4, processed=5))
    first = 2
    if overlap == "wait":
        assert fire_at(upkeep, 2).state == IterationState.WAITING
        first = 3
    assert told(web) == []
    for hour in range(first, first + 9):
        assert fire_at(upkeep, hour).state == IterationState.SKIPPED
    titles = [letter["title"] for letter in told(web)]
    assert titles == [
        f"news: {number} skipped" for number in ("1 firing", "2 firings", "4 firings", "8 firings")
    ]
    assert told(web)[1]["message"].splitlines()[:3] == [
        f"2 firings skipped, the latest at 2026-03-01 {7 + first:02}:00 UTC, because iteration 1 had not ended.",
        "Iteration 1 began at 2026-03-01 07:00 UTC.",
        f"Crawl {begun.crawl}: 5 pages processed, 4 URLs left.",
    ]
    now = NOW + timedelta(hours=first + 9)
    upkeep.claims.end(begun, IterationState.FINISHED, "finished", None, now)
    for days in range(4):
        asyncio.run(upkeep.sweeper.sweep([], now + timedelta(days=days)))
    assert len(told(web)) == 4


def test_iterations_that_a_firing_replaces_are_told_once(upkeep: Upkeep, web: LocalWeb) -> None:
    upkeep.job(cron="0 * * * *", overlap="replace", notify=[target(web)])
    begun = upkeep.claims.take(fire_at(upkeep, 1), None, NOW + timedelta(hours=1))
    assert begun is not None and told(web) == []
    fire_at(upkeep, 2)  # waits until the first has stopped, and is replaced by
    fire_at(upkeep, 3)
    stopped = NOW + timedelta(hours=3, minutes=1)
    upkeep.claims.end(begun, IterationState.STOPPED, str(upkeep.claims.beat(begun)), None, stopped)
    for hours in range(0, 60, 12):
        asyncio.run(upkeep.sweeper.sweep([], stopped + timedelta(hours=hours)))
    first, second = told(web)
    assert first["title"] == second["title"] == "news: 1 iteration replaced"
    assert first["message"].splitlines()[:2] == [
        "1 iteration replaced by the firing of 2026-03-01 08:00 UTC.",
        "Iteration 1 began at 2026-03-01 07:00 UTC.",
    ]
    assert "Iteration 2 had waited since 2026-03-01 08:00 UTC." in second["message"]


def test_people_are_told_once_of_an_iteration_that_failed(upkeep: Upkeep, web: LocalWeb) -> None:
    """Also when their server was away at first, and when nobody of another job can be told."""
    web.put(SITE, "/tell", Reply(status=503))
    broken = {"name": "a", "cron": "0 6 * * *", "spider": "broad", "notify": ["slak://wrong"]}
    upkeep.store.apply([broken], NOW)
    definition = upkeep.job(notify=[target(web)])
    one = upkeep.iteration(definition, NOW, ended=None)
    upkeep.claims.end(one, IterationState.FAILED, "there is no seed in seeds.txt", None, NOW)
    asyncio.run(upkeep.sweeper.sweep([], NOW))
    assert len(web.hits) == 1
    web.put(SITE, "/tell", "thanks")
    for hour in range(1, 4):
        asyncio.run(upkeep.sweeper.sweep([], NOW + timedelta(hours=hour)))
    assert len(web.hits) == 2
    letter = told(web)[-1]
    assert letter["title"] == "news: iteration 1 failed"
    assert "there is no seed in seeds.txt" in letter["message"]


def test_people_are_told_once_of_findings(upkeep: Upkeep, web: LocalWeb) -> None:
    definition = upkeep.job(notify=[target(web)])
    for reason in ("finished", finish_reason("finished", "Links: 2 missing.")):
        iteration = upkeep.iteration(definition, NOW, ended=None)
        upkeep.claims.end(iteration, IterationState.FINISHED, reason, None, NOW)
    for hour in range(3):
        asyncio.run(upkeep.sweeper.sweep([], NOW + timedelta(hours=hour)))
    (letter,) = told(web)
    assert letter["title"] == "news: iteration 2 finished with findings"
    assert letter["message"].startswith("Links: 2 missing.")


def test_what_a_crawl_could_not_send_is_sent_after_its_end(upkeep: Upkeep, web: LocalWeb) -> None:
    """Where each crawl has a metadata database of its own, as without METADATA_URI."""
    own = f"sqlite:///{upkeep.folder}/own.db"
    definition = upkeep.job(notify=[target(web)], settings={"METADATA_URI": own})
    one = upkeep.iteration(definition, NOW, ended=NOW)
    assert upkeep.crawls.metadata(definition, one) == own
    with Outbox(own) as outbox:
        outbox.put(Notice("a", "FINISHED", "news: crawl finished", "text", NOW, one.crawl))
        for minutes in range(1, 4):
            asyncio.run(upkeep.sweeper.sweep([], NOW + timedelta(minutes=minutes)))
        assert [letter["title"] for letter in told(web)] == ["news: crawl finished"]
        assert outbox.notices(unsent=True) == []
