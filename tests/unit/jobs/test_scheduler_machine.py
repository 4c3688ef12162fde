"""Any course of events: each firing has one iteration, and a job one crawl at a time."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.unit.jobs.world import MovedClock, World
from webcrawl.jobs.records import ACTIVE, IterationState, JobState
from webcrawl.jobs.schedule import Schedule
from webcrawl.jobs.store import JobStore

BEGIN = datetime(2026, 3, 27, 20, 0, tzinfo=UTC)
NAMES = ("a", "b", "c")
names = st.sampled_from(NAMES)
CRON = "30 */3 * * *"


class Schedulers(RuleBasedStateMachine):
    """Three schedulers that step, die and come back; a clock that jumps; an operator; crawls that end."""

    @initialize(
        overlap=st.sampled_from(["wait", "skip", "replace"]),
        missed=st.sampled_from(["late", "skip"]),
        zone=st.sampled_from(["UTC", "Europe/Berlin"]),
    )
    def begin(self, overlap: str, missed: str, zone: str) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.world = World(JobStore(f"sqlite:///{self.folder}/metadata.db"), MovedClock(BEGIN))
        values = {"name": "news", "cron": CRON, "timezone": zone, "spider": "s"}
        values |= {"overlap": overlap, "missed": missed}
        self.world.store.apply([values], BEGIN)
        self.overlap = overlap
        self.schedule = Schedule(CRON, zone)
        self.expected = set[datetime]()
        self.since: datetime | None = BEGIN
        """Firings until then are expected; None while the job is not on."""
        self.fences = dict[int, int]()

    def teardown(self) -> None:
        """Whatever has happened, one scheduler brings every iteration to an end."""
        self.switch(JobState.PAUSED)
        self.world.scheduler("last")
        for _ in range(8):
            self.world.clock.move(seconds=31)
            self.world.step("last")
            for _, crawl in self.world.running():
                self.world.end(crawl)
        assert not set(self.world.states()) & set(ACTIVE)
        assert self.world.running() == []
        self.world.store.close()
        shutil.rmtree(self.folder)

    @rule(name=names)
    def step(self, name: str) -> None:
        if name not in self.world.schedulers:
            self.world.scheduler(name)
        self.world.step(name)
        self.expect()

    @rule(name=names)
    def kill(self, name: str) -> None:
        if name in self.world.schedulers:
            self.world.kill(name)

    @rule(name=names)
    def leave(self, name: str) -> None:
        if name in self.world.schedulers:
            asyncio.run(self.world.schedulers.pop(name).close())

    @rule(seconds=st.sampled_from([1, 4, 31, 600, 3 * 3600, 10 * 3600, 26 * 3600]))
    def wait(self, seconds: int) -> None:
        self.world.clock.move(seconds=seconds)

    @rule(place=st.integers(0, 5), state=st.sampled_from([IterationState.FINISHED, IterationState.FAILED]))
    def end(self, place: int, state: IterationState) -> None:
        if running := self.world.running():
            self.world.end(running[place % len(running)][1], state, "so")

    @rule(state=st.sampled_from(JobState))
    def switch(self, state: JobState) -> None:
        self.world.store.set_state("news", state, self.world.clock.now())
        if state != JobState.ON:
            self.since = None
        elif self.since is None:
            self.since = self.world.clock.now()

    def expect(self) -> None:
        """After a step of any scheduler all firings that are due have their iteration."""
        if self.since is not None:
            self.expected |= set(self.schedule.between(self.since, self.world.clock.now()))
            self.since = self.world.clock.now()

    @invariant()
    def each_firing_has_one_iteration(self) -> None:
        dues = [one.due for one in self.world.store.iterations("news", 10_000)]
        assert len(dues) == len(set(dues))
        assert set(dues) == self.expected

    @invariant()
    def a_job_runs_once_at_a_time(self) -> None:
        iterations = self.world.store.iterations("news", 10_000)
        assert sum(one.state == IterationState.RUNNING for one in iterations) <= 1
        assert sum(one.state == IterationState.WAITING for one in iterations) <= 1
        active = sum(one.state in ACTIVE for one in iterations)
        assert active <= (1 if self.overlap == "skip" else 2)
        for one in iterations:
            assert one.fence >= self.fences.get(one.id, 0)
            self.fences[one.id] = one.fence
            assert (one.ended is None) == (one.state in ACTIVE)
            if one.state == IterationState.SKIPPED:
                assert one.started is None and one.reason

    @invariant()
    def the_holder_has_workers(self) -> None:
        for one in self.world.store.iterations("news", 10_000):
            if one.state == IterationState.RUNNING and one.holder in self.world.schedulers:
                assert any(workers.crawl == one.crawl for _, workers in self.world.started)


TestSchedulers = Schedulers.TestCase
TestSchedulers.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
