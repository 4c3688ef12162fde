"""Checkpoints of iterations that run, and what is deleted of those that a job no longer keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import redis

from tests.crawl.upkeep import NOW, URL, Upkeep
from tests.crawls import scrapy
from webcrawl.alarms.stuck import StuckPages
from webcrawl.config import StoreConfig
from webcrawl.engine.keys import CRAWLS
from webcrawl.errors import StoreError
from webcrawl.frontier.checkpoint.files import load_manifest
from webcrawl.frontier.checkpoint.periodic import complete
from webcrawl.jobs.definition import Keep
from webcrawl.jobs.records import Iteration, IterationCounts, finish_reason
from webcrawl.jobs.retention import Retention, expired
from webcrawl.jobs.store import JobStore
from webcrawl.jobs.sweeper import CheckpointKeeper
from webcrawl.jobs.watching import Watching
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.objects.folder import FolderStore
from webcrawl.stores.objects.store import open_store


@pytest.fixture
def upkeep(tmp_path: Path, redis_url: str) -> Upkeep:
    return Upkeep(tmp_path, redis_url)


def test_checkpoints_are_written_on_time_and_the_latest_kept(upkeep: Upkeep) -> None:
    target = upkeep.folder / "copies"
    definition = upkeep.job(checkpoints={"to": str(target), "hours": 6, "keep": 2})
    one = upkeep.iteration(definition, NOW, ended=None)
    written = []
    keeper = CheckpointKeeper(upkeep.crawls)
    for hour in range(0, 30, 2):
        # another scheduler goes on after the first day
        keeper = CheckpointKeeper(upkeep.crawls) if hour == 24 else keeper
        now = NOW + timedelta(hours=hour)
        if uri := asyncio.run(keeper.look_after(definition, one, now)):
            written.append((hour, uri))
    assert [hour for hour, _ in written] == [6, 12, 18, 24]
    store = open_store((target / one.crawl).as_uri(), "checkpoints")
    assert complete(store) == ["20260302T000000Z", "20260302T060000Z"]
    manifest = load_manifest(open_store(written[-1][1], "checkpoints"))
    assert (manifest.crawl, manifest.counts["open"]) == (one.crawl, 1)


def test_a_checkpoint_is_restored_as_another_crawl(upkeep: Upkeep) -> None:
    definition = upkeep.job(checkpoints={"to": str(upkeep.folder / "copies"), "hours": 1})
    one = upkeep.iteration(definition, NOW, ended=None)
    keeper = CheckpointKeeper(upkeep.crawls)
    uri = asyncio.run(keeper.look_after(definition, one, NOW + timedelta(hours=1)))
    words = [word for name, value in upkeep.values.items() for word in ("-s", f"{name}={value}")]
    done = scrapy("restore", str(uri), "again", *words)
    done = scrapy("status", "again", "--json", *words)
    assert '"queued": 1' in done.stdout, done.stderr


@pytest.mark.parametrize("keep", [{"iterations": 2}, {"days": 2}])
def test_what_a_job_does_not_keep_is_deleted(
    upkeep: Upkeep, valkey: redis.Redis, keep: dict[str, int]
) -> None:
    definition = upkeep.job(keep=keep)
    begun = [NOW + timedelta(days=day) for day in range(4)]
    made = [upkeep.iteration(definition, start, ended=start + timedelta(hours=1)) for start in begun]
    now = begun[-1] + timedelta(hours=2)
    due = upkeep.retention.due(now)
    assert [one.number for _, one in due] == [2, 1]
    told = upkeep.retention.described(*due[0])
    assert all(part in told for part in (f"crawl {made[1].crawl}", made[1].data_dir, "pages/news-", "rows"))
    for _ in range(2):  # the second sweep finds nothing left to do
        asyncio.run(upkeep.sweeper.sweep([], now))
        kept = [one.crawl for one in made[2:]]
        assert sorted(name.decode() for name in valkey.hkeys(CRAWLS)) == kept
        assert upkeep.rows() == kept
        assert upkeep.places() == sorted(2 * [crawl.removeprefix("news-") for crawl in kept])
        assert not [key for key in valkey.scan_iter() if any(one.crawl.encode() in key for one in made[:2])]
    rows = upkeep.store.iterations()
    assert [one.deleted for one in rows] == [None, None, now, now]
    assert upkeep.retention.due(now) == []


def test_shared_pages_that_no_kept_iteration_has_fetched_are_deleted(upkeep: Upkeep) -> None:
    """After as many complete iterations as are kept; a page stays while another is its copy."""
    definition = upkeep.job(keep={"iterations": 2}, settings={"REVISIT": True, "CHECKPOINT_EVERY": "6h"})
    copies = []
    days = iter(NOW + timedelta(days=day) for day in range(9))

    def swept(reason: str = "finished") -> list[str]:
        """The crawls whose rows are left after another iteration; each iteration has a page of its own."""
        started = next(days)
        made = upkeep.iteration(definition, started, ended=started, reason=reason)
        stores = StoreConfig.from_settings(upkeep.crawls.settings(definition, made))
        copies.append(FolderStore(f"{stores.checkpoints}/{made.crawl}"))
        copies[-1].put("20260301T060000Z/manifest.json", b"{}")
        asyncio.run(upkeep.sweeper.sweep([], started))
        return [crawl.removeprefix("news-2026030") for crawl in upkeep.rows()]

    first, second, third, fourth, fifth = (f"{day}T060000Z" for day in range(1, 6))
    assert [swept() for _ in range(2)] == [[first], [first, second]]
    with Metadata(upkeep.values["METADATA_URI"]) as metadata:
        copy = {"duplicate_of": f"{URL}2", "duplicate_kind": "exact", "crawl": f"news-2026030{fourth}"}
        metadata.upsert([{**metadata.get(f"{URL}1"), "url": f"{URL}copy", **copy}])
    assert swept("max_pages") == [first, second, third, fourth]
    assert swept() == [second, third, fourth, fourth]
    # two complete iterations have come after the second, too, but its page has a copy
    assert swept(finish_reason("finished", "Links: 2 missing.")) == [second, fourth, fourth, fifth]
    kept = [bool(list(copy.objects())) for copy in copies]
    assert kept == [False, False, False, True, True], "the checkpoints of CHECKPOINT_EVERY too"


def test_an_iteration_that_runs_is_kept(upkeep: Upkeep) -> None:
    definition = upkeep.job(keep={"days": 1})
    upkeep.iteration(definition, NOW, ended=None)
    assert upkeep.retention.due(NOW + timedelta(days=30)) == []


def test_all_that_a_job_has_stored_is_deleted(upkeep: Upkeep, valkey: redis.Redis) -> None:
    """What another machine has is named."""
    definition = upkeep.job()
    one, other = (upkeep.iteration(definition, NOW + timedelta(days=day), ended=NOW) for day in range(2))
    Path(str(other.data_dir)).rename(upkeep.folder / "elsewhere")
    retention = Retention(upkeep.store, upkeep.crawls, "another machine")
    with pytest.raises(StoreError, match=r"iterations 2 of news have stored is on \S+: run the same command"):
        asyncio.run(retention.delete_all(definition, NOW))
    assert upkeep.rows() == [other.crawl]
    assert [found.id for found in asyncio.run(upkeep.retention.delete_all(definition, NOW))] == [other.id]
    assert upkeep.rows() == upkeep.places() == valkey.hkeys(CRAWLS) == []
    assert one.deleted is None and upkeep.store.iterations()[1].deleted == NOW


def test_a_folder_elsewhere_is_not_deleted(upkeep: Upkeep) -> None:
    """A folder is left to its own machine, and one that is not of the iteration to the operator."""
    definition = upkeep.job(keep={"days": 1})
    one = upkeep.iteration(definition, NOW, ended=NOW)
    later = NOW + timedelta(days=2)
    elsewhere = Retention(upkeep.store, upkeep.crawls, "another machine")
    # a container whose name has changed has the folder
    assert [found.id for _, found in elsewhere.due(later)] == [one.id]
    Path(str(one.data_dir)).rename(upkeep.folder / "elsewhere")
    assert elsewhere.due(later) == []
    precious = upkeep.folder / "precious"
    precious.mkdir()
    with pytest.raises(StoreError, match="precious is not the folder of iteration 1 of news: it is kept"):
        asyncio.run(upkeep.retention.delete(definition, replace(one, data_dir=str(precious)), later))
    assert precious.exists()


def test_the_command_says_what_it_would_delete(upkeep: Upkeep) -> None:
    definition = upkeep.job(keep={"days": 1})
    one = upkeep.iteration(definition, NOW - timedelta(days=400), ended=NOW - timedelta(days=400))
    words = [word for name, value in upkeep.values.items() for word in ("-s", f"{name}={value}")]
    done = scrapy("jobs", "sweep", "--dry-run", *words)
    assert done.stdout.startswith(f"Would delete iteration 1 of news: crawl {one.crawl}, "), done.stderr
    assert upkeep.rows() == [one.crawl]
    assert scrapy("jobs", "sweep", *words).stdout.startswith("Deleted iteration 1 of news: crawl ")
    assert upkeep.rows() == upkeep.places() == []
    assert scrapy("jobs", "sweep", *words).stdout.startswith("There is nothing to delete: each job keeps")


@pytest.mark.parametrize(
    ("keep", "left"),
    [(Keep(), 5), (Keep(iterations=3), 3), (Keep(days=1), 2), (Keep(3, 1), 2), (Keep(1, 9), 1)],
)
def test_number_and_days_both_limit_what_is_kept(
    keep: Keep, left: int, iteration: Callable[..., Iteration]
) -> None:
    ended = [iteration(number, NOW - timedelta(days=5 - number)) for number in range(5, 0, -1)]
    assert len(ended) - len(expired(ended, keep, NOW)) == left


@pytest.fixture
def iteration(tmp_path: Path) -> Callable[..., Iteration]:
    store = JobStore(f"sqlite:///{tmp_path}/jobs.db")
    store.apply([{"name": "news", "cron": "0 6 * * *", "spider": "broad"}], NOW)
    one = store.run("news", NOW)
    return lambda number, ended: replace(one, number=number, ended=ended)


def test_dead_letters_are_stuck_until_they_are_queued_again(upkeep: Upkeep) -> None:
    definition = upkeep.job()
    one = upkeep.iteration(definition, NOW, ended=None)
    host = URL[:-1]

    async def change(*, requeue: bool) -> None:
        async with upkeep.crawls.opened(definition, one) as opened:
            frontier = opened.connection.frontier
            if requeue:
                assert await frontier.requeue({(host, URL)}, "") == 1
            else:
                assert await frontier.condemn(host, "no route to host") == 1

    def look() -> IterationCounts:
        return asyncio.run(upkeep.crawls.look(definition, one, Watching("a scheduler"), ended=False)).counts

    with StuckPages(upkeep.values["METADATA_URI"]) as stuck:
        assert (look().queued, look().stuck) == (1, 0)
        asyncio.run(change(requeue=False))
        for _ in range(2):
            assert (look().queued, look().stuck) == (0, 1)
        (page,) = stuck.pages(one.crawl)
        assert (page.url, page.kind, page.reason) == (URL, "DEAD_LETTER", "no route to host")
        stuck.mark_notified(one.crawl, "DEAD_LETTER", NOW, page.created)
        # another scheduler goes on
        upkeep.crawls = upkeep.again()
        assert look().stuck == 1
        assert [page.notified for page in stuck.pages(one.crawl)] == [NOW]
        asyncio.run(change(requeue=True))
        assert (look().queued, look().stuck) == (1, 0)
        assert stuck.pages(one.crawl) == []
