"""Jobs as an operator runs them: a folder, a clock that a test moves, and schedulers that are processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.crawls import CHECKOUT, NO_NAMES, TRUSTED, Process, inherited, scrapy, start_python
from webcrawl.jobs.records import Iteration, IterationState
from webcrawl.jobs.store import JobStore

BEGIN = datetime(2026, 3, 26, 4, 0, tzinfo=UTC)
SECONDS = 240.0
"""How long to wait for anything."""


@dataclass
class Operations:
    """A folder with jobs, a clock, and schedulers that are processes."""

    folder: Path
    more: dict[str, str] = field(default_factory=dict)
    """Settings of all."""
    schedulers: dict[str, Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.move_to(BEGIN)

    @property
    def settings(self) -> list[str]:
        values = {
            "DATA_DIR": self.folder / "data",
            "DNS_SERVERS": NO_NAMES,
            "SOFT_404": False,
            "DOWNLOAD_DELAY": 0,
            **self.more,
        }
        return [word for name, value in values.items() for word in ("-s", f"{name}={value}")]

    @property
    def store(self) -> JobStore:
        (self.folder / "data").mkdir(exist_ok=True)
        return JobStore(self.more.get("METADATA_URI", f"sqlite:///{self.folder}/data/metadata.db"))

    def jobs(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        return scrapy("jobs", *words, *self.settings, status=status)

    def move_to(self, now: datetime) -> None:
        new = self.folder / "clock.new"
        new.write_text(now.isoformat())
        new.replace(self.folder / "clock")

    def start(self, name: str) -> None:
        words = [str(self.folder / "clock"), *self.settings]
        with open(os.devnull, "rb") as null, (self.folder / f"{name}.log").open("ab") as log:
            self.schedulers[name] = start_python(
                "tests.moved_scheduler", words, CHECKOUT, {**inherited(), **TRUSTED}, [null, log, log]
            )

    def kill(self, name: str) -> None:
        """Kills a scheduler, which cannot say goodbye to anybody."""
        self.schedulers[name].kill()
        self.schedulers.pop(name).wait(60)

    def holder(self, one: Iteration) -> str:
        """The scheduler that has an iteration, by what it has logged."""
        for name in self.schedulers:
            if f"Scheduler {one.holder}:" in (self.folder / f"{name}.log").read_text():
                return name
        raise AssertionError(f"no scheduler is {one.holder}")

    def until(self, condition: Callable[[], bool], look_every: float = 0.02) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, self.logs()
            time.sleep(look_every)

    def until_ended(self, store: JobStore, number: int) -> None:
        """Waits for the end of an iteration. Time goes on meanwhile: a dead scheduler has to be silent for a while."""
        began = datetime.fromisoformat((self.folder / "clock").read_text())
        started = time.monotonic()

        def ended() -> bool:
            self.move_to(began + timedelta(seconds=3 * (time.monotonic() - started)))
            states = {one.number: one.state for one in store.iterations("news")}
            assert len(states) <= number
            assert states.get(number) not in (
                IterationState.FAILED,
                IterationState.SKIPPED,
                IterationState.STOPPED,
            ), self.logs()
            return states.get(number) == IterationState.FINISHED

        self.until(ended, look_every=0.1)

    def pass_time(self, condition: Callable[[], bool]) -> None:
        """Waits for a condition, while the clock goes on as the time of this process does."""
        began, started = datetime.fromisoformat((self.folder / "clock").read_text()), time.monotonic()

        def holds() -> bool:
            self.move_to(began + timedelta(seconds=time.monotonic() - started))
            return condition()

        self.until(holds, look_every=0.1)

    def run_job(self, name: str, state: IterationState = IterationState.FINISHED) -> Iteration:
        """Runs an iteration to its end, a day after the last, and returns it; a scheduler must run."""
        now = datetime.fromisoformat((self.folder / "clock").read_text()) + timedelta(days=1)
        self.move_to(now)
        number = self.store.run(name, now).number

        def ended() -> bool:
            iteration = self.store.iterations(name, 1)[0]
            assert iteration.number == number
            return iteration.ended is not None

        self.until(ended, look_every=0.1)
        iteration = self.store.iterations(name, 1)[0]
        assert iteration.state == state, self.logs()
        return iteration

    def logs(self) -> str:
        paths = [*self.folder.glob("*.log"), *self.folder.glob("data/jobs/*/*/logs/*.log")]
        return "\n".join(f"{path}:\n{path.read_text(errors='replace')[-2000:]}" for path in paths)

    def close(self) -> None:
        for process in self.schedulers.values():
            process.send_signal(signal.SIGTERM)
        for process in self.schedulers.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            process.kill()
