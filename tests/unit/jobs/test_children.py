"""Workers as child processes: how they end, what is started again, what is stopped."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from webcrawl.jobs.children import Children, Command
from webcrawl.jobs.records import IterationState
from webcrawl.jobs.workers import MOST_RESTARTS, Ended

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CRAWL = "news-20260301T060000Z"
WAITS = "import sys; print('began', flush=True); sys.stdin.read()"


@pytest.fixture
def lifeline() -> Iterator[int]:
    reading, writing = os.pipe()
    yield reading
    for descriptor in (reading, writing):
        os.close(descriptor)


@pytest.fixture
def start(tmp_path: Path, lifeline: int) -> Iterator[Callable[..., Children]]:
    """Starts a worker for each program."""
    made: list[Children] = []

    def start(*programs: str, lifeline: int = lifeline) -> Children:
        commands = [Command([sys.executable, "-S", "-c", program], {}) for program in programs]
        made.append(Children(commands, tmp_path, CRAWL, lifeline))
        return made[-1]

    yield start
    for one in made:
        for process in one._processes:
            process.kill()
            process.wait(60)


def until(children: Children, now: datetime = NOW) -> Ended:
    deadline = time.monotonic() + 60
    while (ended := asyncio.run(children.poll(now))) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return ended


def all_began(folder: Path, lines: int) -> None:
    """Waits until the workers have written so many lines in all."""
    deadline = time.monotonic() + 60
    while sum(path.read_text().count("\n") for path in folder.glob("logs/*.log")) < lines:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_workers_that_end_well_have_finished(start: Callable[..., Children]) -> None:
    assert until(start("", "")) == (IterationState.FINISHED, "finished")


def test_the_reason_is_that_of_the_summary(start: Callable[..., Children], tmp_path: Path) -> None:
    summary = tmp_path / "summaries" / f"{CRAWL}.json"
    summary.parent.mkdir()
    summary.write_text(json.dumps({"finish_reason": "of an earlier run"}))
    write = f"open({str(summary)!r}, 'w').write('{{\"finish_reason\": \"max_pages\"}}')"
    assert until(start(write)) == (IterationState.FINISHED, "max_pages")


def test_a_worker_that_ends_with_an_error_has_failed(start: Callable[..., Children]) -> None:
    ended = until(
        start("", "import sys; print('a'); print('no \\x1b[1mseeds', file=sys.stderr); sys.exit(2)")
    )
    assert ended == (IterationState.FAILED, "exit status 2: no  [1mseeds")


def test_workers_with_findings_have_finished(start: Callable[..., Children]) -> None:
    findings = "import sys; print('Links: 2 missing.'); sys.exit(3)"
    ended = (IterationState.FINISHED, "finished with findings: Links: 2 missing.")
    assert until(start("", findings)) == until(start(findings, "")) == ended
    assert until(start(findings, "import sys; sys.exit(1)")).state == IterationState.FAILED


def test_a_worker_that_is_killed_starts_again_each_time_later(
    start: Callable[..., Children], tmp_path: Path
) -> None:
    children = start(WAITS, WAITS)
    now, pauses = NOW, []
    for restart in range(MOST_RESTARTS):
        all_began(tmp_path, 2 + restart)
        children._processes[1].kill()
        children._processes[1].wait(60)
        dead = children._processes[1]
        since = now
        while children._processes[1] is dead:
            assert asyncio.run(children.poll(now)) is None
            now += timedelta(seconds=0.5)
        pauses.append(round((now - since).total_seconds() - 0.5))
    assert pauses == [1, 2, 4, 8, 16]
    children._processes[1].kill()
    ended = until(children, now)
    assert ended.state == IterationState.FAILED
    assert ended.reason == "workers died 6 times; SIGKILL: began"
    assert [process.poll() is None for process in children._processes] == [False, False]


def test_workers_that_hang_are_killed_and_start_again(start: Callable[..., Children], tmp_path: Path) -> None:
    children = start(
        "import os, signal, sys; print('began', flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
    )
    all_began(tmp_path, 1)
    (stopped,) = children._processes
    asyncio.run(children.kill())
    stopped.wait(60)
    assert asyncio.run(children.poll(NOW)) is None
    assert asyncio.run(children.poll(NOW + timedelta(seconds=1))) is None
    assert children._processes != [stopped]


def test_a_worker_that_somebody_stopped_starts_again(start: Callable[..., Children], tmp_path: Path) -> None:
    (tmp_path / "summaries").mkdir()
    write = f"open({str(tmp_path / 'summaries' / f'{CRAWL}.json')!r}, 'w').write('{{\"finish_reason\": \"shutdown\"}}')"
    children = start(write)
    (process,) = children._processes
    process.wait(60)
    assert asyncio.run(children.poll(NOW)) is None
    assert asyncio.run(children.poll(NOW + timedelta(seconds=2))) is None
    assert children._processes != [process]


@pytest.mark.parametrize("status", [130, 143])
def test_a_worker_that_was_stopped_at_once_starts_again(start: Callable[..., Children], status: int) -> None:
    children = start(f"import sys; sys.exit({status})")
    (process,) = children._processes
    process.wait(60)
    assert asyncio.run(children.poll(NOW)) is None
    assert asyncio.run(children.poll(NOW + timedelta(seconds=2))) is None
    assert children._processes != [process]


def test_workers_are_stopped_cleanly(start: Callable[..., Children], tmp_path: Path) -> None:
    children = start(WAITS, WAITS)
    all_began(tmp_path, 2)
    assert asyncio.run(children.poll(NOW)) is None
    asyncio.run(children.stop())
    assert until(children) == (IterationState.STOPPED, "shutdown")


def test_workers_that_do_not_stop_are_killed_after_a_minute(
    start: Callable[..., Children], tmp_path: Path
) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + WAITS
    children = start(stubborn)
    all_began(tmp_path, 1)
    asyncio.run(children.stop())
    assert asyncio.run(children.poll(NOW)) is None
    assert asyncio.run(children.poll(NOW + timedelta(seconds=59))) is None
    assert children._processes[0].poll() is None
    assert until(children, NOW + timedelta(seconds=61)) == (IterationState.STOPPED, "shutdown")
    assert children._processes[0].returncode == -9


def test_workers_see_the_end_of_their_scheduler(start: Callable[..., Children], tmp_path: Path) -> None:
    reading, writing = os.pipe()
    children = start(WAITS, lifeline=reading)
    os.close(reading)
    all_began(tmp_path, 1)
    assert asyncio.run(children.poll(NOW)) is None
    os.close(writing)
    assert until(children) == (IterationState.FINISHED, "finished")
