"""What schedulers do with jobs that are due, with each other's iterations, and with what operators say."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.unit.jobs.world import MovedClock, World
from webcrawl.errors import StoreError
from webcrawl.jobs import scheduler
from webcrawl.jobs.claims import SILENCE
from webcrawl.jobs.firing import fire
from webcrawl.jobs.records import Iteration, IterationCounts, IterationState, JobState
from webcrawl.jobs.store import JobStore

BEGIN = datetime(2026, 3, 1, 5, 59, 30, tzinfo=UTC)
DUE = datetime(2026, 3, 1, 6, 0, tzinfo=UTC)
LONG = SILENCE.total_seconds() + 1


@pytest.fixture
def world(store: JobStore) -> World:
    return World(store, MovedClock(BEGIN))


@pytest.fixture
def lite(tmp_path: Path) -> World:
    """A world in SQLite alone."""
    return World(JobStore(f"sqlite:///{tmp_path}/metadata.db"), MovedClock(BEGIN))


def apply(world: World, **more: Any) -> None:
    values = {"name": "news", "cron": "0 6 * * *", "spider": "broad", **more}
    world.store.apply([values], world.clock.now())


def test_a_job_runs_when_it_is_due(world: World) -> None:
    apply(world)
    world.scheduler("a")
    world.step()
    assert world.store.iterations() == []
    world.clock.move(seconds=31)
    world.step()
    (one,) = world.store.iterations()
    assert (one.number, one.due, one.state, one.holder, one.machine) == (
        1,
        DUE,
        IterationState.RUNNING,
        "a",
        "here",
    )
    assert (one.started, one.ended, one.data_dir) == (world.clock.now(), None, f"/crawls/{one.crawl}")
    assert world.running() == [("a", one.crawl)]
    world.step()
    (one,) = world.store.iterations()
    assert one.counts == IterationCounts(10, 4, 5, 5, 1)
    ended = world.clock.move(minutes=3)
    world.end(one.crawl, reason="max_pages")
    world.step()
    (one,) = world.store.iterations()
    assert (one.state, one.reason, one.ended, one.holder) == (
        IterationState.FINISHED,
        "max_pages",
        ended,
        None,
    )
    assert one.counts == IterationCounts(10, 0, 5, 5, 1)
    world.clock.move(hours=24)
    world.step()
    assert world.states() == [IterationState.FINISHED, IterationState.RUNNING]


def test_of_two_schedulers_one_runs_a_firing(world: World) -> None:
    apply(world)
    world.scheduler("a")
    world.scheduler("b")
    world.clock.move(seconds=31)
    for _ in range(3):
        world.step()
    assert [owner for owner, _ in world.running()] == ["a"]
    assert len(world.store.iterations()) == 1


def test_a_scheduler_without_room_leaves_work_to_another(lite: World) -> None:
    for name in ("one", "two"):
        apply(lite, name=name)
    lite.room = 1
    lite.scheduler("a")
    lite.scheduler("b")
    lite.clock.move(seconds=31)
    lite.step()
    assert sorted(owner for owner, _ in lite.running()) == ["a", "b"]


def test_the_iteration_of_a_dead_scheduler_goes_on_elsewhere(world: World) -> None:
    apply(world)
    world.scheduler("a")
    world.scheduler("b")
    world.clock.move(seconds=31)
    world.step()
    (before,) = world.store.iterations()
    world.kill("a")
    world.step()
    world.clock.move(seconds=LONG / 2)
    world.step()
    assert world.running() == []
    world.clock.move(seconds=LONG / 2)
    world.step()
    (after,) = world.store.iterations()
    assert (after.crawl, after.fence, after.started) == (before.crawl, before.fence + 1, before.started)
    assert world.running() == [("b", before.crawl)]
    world.end(before.crawl)
    world.step()
    assert world.states() == [IterationState.FINISHED]


def test_a_scheduler_that_was_stopped_for_a_while_changes_nothing(world: World) -> None:
    """Its iteration was taken meanwhile. It ends its workers, although they say that the crawl is finished."""
    apply(world)
    world.scheduler("a")
    world.scheduler("b")
    world.clock.move(seconds=31)
    world.step()
    for _ in range(2):
        world.clock.move(seconds=LONG)
        world.step("b")
    (one,) = world.store.iterations()
    assert sorted(world.running()) == [("a", one.crawl), ("b", one.crawl)]
    world.started[0][1].end(IterationState.FAILED, "exit status 1")
    world.step("a")
    assert world.running() == [("b", one.crawl)]
    assert world.states() == [IterationState.RUNNING]
    world.clock.move(seconds=10)
    world.step("a", "b")
    assert world.store.iterations()[0].holder == "b"


def test_a_crawl_in_a_folder_goes_on_on_its_machine_alone(lite: World) -> None:
    lite.shared_engine = False
    apply(lite)
    lite.scheduler("a")
    lite.clock.move(seconds=31)
    lite.step()
    lite.kill("a")
    lite.scheduler("elsewhere", machine="there")
    for _ in range(3):
        lite.clock.move(seconds=LONG)
        lite.step()
    assert lite.running() == []
    # but an operator can give it up, and any scheduler ends it
    lite.store.set_state("news", JobState.OFF, lite.clock.now())
    lite.step()
    assert lite.states() == [IterationState.STOPPED]
    lite.store.set_state("news", JobState.ON, lite.clock.now())
    lite.scheduler("b")
    lite.clock.move(days=1)
    lite.step("b")
    assert [owner for owner, _ in lite.running()] == ["b"]


def test_a_scheduler_that_ends_gives_its_iterations_up_at_once(lite: World) -> None:
    apply(lite)
    first = lite.scheduler("a")
    lite.clock.move(seconds=31)
    lite.step()
    asyncio.run(first.close())
    assert lite.running() == [] and lite.states() == [IterationState.RUNNING]
    del lite.schedulers["a"]
    lite.scheduler("b")
    lite.step()
    assert [owner for owner, _ in lite.running()] == ["b"]


def test_late_runs_the_latest_of_the_missed_firings(world: World) -> None:
    apply(world)
    world.scheduler("a")
    world.clock.move(days=3, hours=2)
    world.step()
    assert world.states() == [IterationState.SKIPPED] * 3 + [IterationState.RUNNING]
    late, *missed = world.store.iterations()
    assert (late.due, late.number) == (DUE + timedelta(days=3), 4)
    assert {one.reason for one in missed} == {"missed: a later firing was due as well"}
    assert {one.ended for one in missed} == {world.clock.now()}


def test_skip_runs_none_of_the_missed_firings(lite: World) -> None:
    apply(lite, missed="skip")
    lite.scheduler("a")
    lite.clock.move(days=1, hours=2)
    lite.step()
    assert lite.states() == [IterationState.SKIPPED] * 2
    assert lite.store.iterations()[0].reason == "missed: no scheduler ran when it was due"
    lite.clock.move(hours=22, seconds=31)
    lite.step()
    assert lite.states() == [IterationState.SKIPPED] * 2 + [IterationState.RUNNING]


def test_a_paused_job_misses_nothing(lite: World) -> None:
    apply(lite)
    lite.scheduler("a")
    lite.store.set_state("news", JobState.PAUSED, lite.clock.now())
    lite.clock.move(days=3)
    lite.step()
    lite.store.set_state("news", JobState.ON, lite.clock.now())
    lite.step()
    assert lite.states() == []
    lite.clock.move(seconds=31)
    lite.step()
    assert lite.states() == [IterationState.RUNNING]


def test_pausing_lets_what_runs_go_on_and_off_stops_it(world: World) -> None:
    apply(world)
    world.scheduler("a")
    world.clock.move(seconds=31)
    world.step()
    world.store.set_state("news", JobState.PAUSED, world.clock.now())
    world.clock.move(seconds=5)
    world.step()
    assert world.states() == [IterationState.RUNNING]
    world.store.set_state("news", JobState.OFF, world.clock.now())
    for _ in range(2):
        world.clock.move(seconds=5)
        world.step()
    (one,) = world.store.iterations()
    assert (one.state, one.reason) == (IterationState.STOPPED, "the job was switched off")
    assert world.running() == []


def test_wait_starts_a_firing_after_its_predecessor(world: World) -> None:
    apply(world, overlap="wait", cron="0 * * * *")
    world.scheduler("a")
    world.clock.move(seconds=31)
    world.step()
    first = world.running()[0][1]
    for _ in range(2):
        world.clock.move(hours=1)
        world.step()
    # a line of one
    assert world.states() == [IterationState.RUNNING, IterationState.WAITING, IterationState.SKIPPED]
    assert world.store.iterations()[0].reason == "another iteration waited already"
    world.end(first)
    world.step()
    assert world.states() == [IterationState.FINISHED, IterationState.RUNNING, IterationState.SKIPPED]


def test_skip_leaves_out_a_firing_whose_predecessor_runs(lite: World) -> None:
    apply(lite, overlap="skip", cron="0 * * * *")
    lite.scheduler("a")
    lite.clock.move(seconds=31)
    lite.step()
    lite.clock.move(hours=1)
    lite.step()
    assert lite.states() == [IterationState.RUNNING, IterationState.SKIPPED]
    assert lite.store.iterations()[0].reason == "iteration 1 had not ended"


def test_replace_stops_the_predecessor(world: World) -> None:
    apply(world, overlap="replace", cron="0 * * * *")
    world.scheduler("a")
    world.clock.move(seconds=31)
    world.step()
    world.clock.move(hours=1)
    for _ in range(3):
        world.clock.move(seconds=5)
        world.step()
    assert world.states() == [IterationState.STOPPED, IterationState.RUNNING]
    assert world.store.iterations()[1].reason == "replaced by the firing of 2026-03-01 07:00 UTC"
    assert len(world.running()) == 1


def test_a_run_by_hand_starts_at_once_also_when_the_job_is_off(lite: World) -> None:
    apply(lite, state="OFF")
    lite.scheduler("a")
    made = lite.store.run("news", lite.clock.now())
    lite.step()
    assert lite.running() == [("a", made.crawl)]


def test_iterations_of_a_deleted_job_are_stopped(world: World) -> None:
    """Also when their scheduler has died."""
    for name in ("news", "other"):
        world.store.apply([{"name": name, "cron": "0 6 * * *", "spider": "s"}], world.clock.now())
        world.store.run(name, world.clock.now())
    world.scheduler("a")
    world.step()
    assert len(world.running()) == 2
    world.store.delete("news", world.clock.now())
    world.clock.move(seconds=4)
    world.step()
    world.step()
    assert world.states() == [IterationState.STOPPED]
    world.store.delete("other", world.clock.now())
    world.kill("a")
    world.scheduler("b")
    world.step()
    world.clock.move(seconds=31)
    world.step()
    assert world.states("other") == [IterationState.STOPPED]
    assert world.store.iterations("other")[0].reason == "the job was deleted"


def test_a_crawl_that_cannot_start_has_failed(lite: World) -> None:
    apply(lite)
    lite.scheduler("a")
    lite.refused = "there is no seed in seeds.txt"
    lite.clock.move(seconds=31)
    lite.step()
    (one,) = lite.store.iterations()
    assert (one.state, one.reason) == (IterationState.FAILED, "there is no seed in seeds.txt")


def test_a_database_that_is_away_is_asked_again(lite: World, caplog: pytest.LogCaptureFixture) -> None:
    apply(lite)
    lite.scheduler("a")
    lite.clock.move(seconds=31)
    lite.step()
    lite.store.database.write(
        lambda connection: connection.execute(text("ALTER TABLE iterations RENAME TO x"))
    )
    lite.clock.move(seconds=5)
    with pytest.raises(StoreError, match="no such table"):
        lite.step()
    assert lite.running()
    lite.clock.move(seconds=LONG)
    with pytest.raises(StoreError):
        lite.step()
    # another scheduler may have it by now
    assert lite.running() == []
    lite.store.database.write(
        lambda connection: connection.execute(text("ALTER TABLE x RENAME TO iterations"))
    )
    for _ in range(3):
        lite.clock.move(seconds=LONG)
        lite.step()
    assert lite.states() == [IterationState.RUNNING] and lite.running()


def test_a_definition_that_cannot_be_read_stops_no_other_job(
    lite: World, caplog: pytest.LogCaptureFixture
) -> None:
    apply(lite, name="bad", cron="0 6 * * *")
    apply(lite)
    change = """UPDATE jobs SET definition = '{"name": "bad", "later": 1}' WHERE name = 'bad'"""
    lite.store.database.write(lambda connection: connection.execute(text(change)))
    lite.scheduler("a")
    lite.clock.move(seconds=31)
    lite.step()
    assert "Job bad cannot be read: later: there is no such key" in caplog.text
    assert lite.states() == [IterationState.RUNNING]


def test_workers_of_which_the_engine_hears_nothing_are_killed(lite: World) -> None:
    apply(lite)
    lite.scheduler("a")
    lite.clock.move(seconds=31)
    lite.step()
    (_, workers) = lite.started[0]
    for minute in range(8):
        lite.hanging = minute > 2
        lite.clock.move(minutes=1)
        lite.step()
    # three minutes after the last sign, and again after three more
    assert workers.killed == 1
    lite.clock.move(minutes=1)
    lite.step()
    assert workers.killed == 2


def test_a_firing_that_an_operator_ran_has_that_iteration(world: World) -> None:
    apply(world)
    world.store.apply([{"name": "other", "cron": "5 6 * * *", "spider": "broad"}], BEGIN)
    world.scheduler("a")
    world.store.run("news", DUE + timedelta(milliseconds=300))
    world.clock.set(DUE + timedelta(seconds=1))
    world.step()
    world.clock.move(minutes=5)
    world.step()
    assert [(one.job, one.due) for one in world.store.iterations()] == [
        ("other", DUE + timedelta(minutes=5)),
        ("news", DUE),
    ]
    world.clock.move(days=1)
    world.step()
    assert world.store.iterations("news")[0].due == DUE + timedelta(days=1)


@pytest.mark.parametrize("change", ["state", "schedule"])
def test_an_operator_whose_clock_is_behind_repeats_no_firing(world: World, change: str) -> None:
    apply(world)
    world.scheduler("a")
    world.clock.move(seconds=31)
    world.step()
    behind = DUE - timedelta(seconds=1)
    if change == "state":
        world.store.set_state("news", JobState.PAUSED, behind)
        world.store.set_state("news", JobState.ON, behind)
    else:
        world.store.apply([{"name": "news", "cron": "0 6,18 * * *", "spider": "broad"}], behind)
    assert world.store.job("news").decided == DUE
    world.step()
    assert [one.due for one in world.store.iterations("news")] == [DUE]


def test_a_job_that_cannot_fire_delays_no_other(lite: World, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(lite)
    lite.store.apply([{"name": "other", "cron": "0 6 * * *", "spider": "broad"}], BEGIN)

    def refusing(store: JobStore, name: str, now: datetime) -> list[Iteration]:
        if name == "news":
            raise StoreError("a row is refused")
        return fire(store, name, now)

    monkeypatch.setattr(scheduler, "fire", refusing)
    lite.scheduler("a")
    lite.clock.move(seconds=31)
    lite.step()
    assert [one.job for one in lite.store.iterations()] == ["other"]


def test_a_job_fires_again_when_a_clock_was_years_ahead(lite: World) -> None:
    apply(lite)
    lite.scheduler("a")
    lite.clock.set(BEGIN.replace(year=2036))
    lite.step()
    (iteration, *_) = lite.store.iterations("news")
    lite.end(iteration.crawl)
    lite.step()
    lite.clock.set(BEGIN)
    lite.step()
    lite.clock.move(seconds=31)
    lite.step()
    dues = [one.due for one in lite.store.iterations("news", 1000)]
    assert DUE in dues and len(dues) == len(set(dues))


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_set_moves_no_iteration(store: JobStore, hours: int) -> None:
    clocks = [MovedClock(BEGIN), MovedClock(BEGIN)]
    world = World(store, clocks[0])
    apply(world)
    world.scheduler("a")
    world.clock = clocks[1]
    world.scheduler("b")

    def wait(seconds: float) -> None:
        for clock in clocks:
            clock.move(seconds=seconds)
        world.step("a", "b")

    wait(31)
    before = store.iterations("news")[0]
    clocks["ab".index(before.holder or "")].set(clocks[0].now() + timedelta(hours=hours))
    clocks["ba".index(before.holder or "")].set(clocks[1].now() - timedelta(hours=hours))
    for _ in range(15):
        wait(3)
    after = store.iterations("news")[0]
    assert (after.holder, after.fence) == (before.holder, before.fence)
    assert after.beat >= before.beat + 14
