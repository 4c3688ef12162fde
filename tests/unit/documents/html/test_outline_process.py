"""Outlines from a separate process: a page that breaks the process affects no other page."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.crawls import CHECKOUT
from tests.processes import is_alive
from webcrawl.config import ReaderConfig
from webcrawl.documents.child_process import ChildProcess
from webcrawl.documents.document import Document
from webcrawl.documents.html import outline_process
from webcrawl.documents.html.outline_process import Outlines
from webcrawl.documents.sandbox import ANSWER_HEAD, READY
from webcrawl.errors import UnreadableDocument

MEMORY = 512 * 1024 * 1024
BREAKING = "tests.unit.documents.html.breaking_outlines"
ERRORS = {
    "crash": "crashed its reader process with SIGSEGV (out of memory, or a library's bug)",
    "leave": "made its reader process exit with status 3",
    "grow": "takes more memory than allowed",
    "fault": "KeyError: 'ours'",
    "rubbish": "made its reader process send an invalid answer",
    "endless": "made its reader process send an oversized answer",
}


def page(text: str) -> Document:
    return Document(f"<title>{text}</title>".encode(), "text/html", "utf-8", "http://site.example/")


@asynccontextmanager
async def started(*, seconds: float = 20.0) -> AsyncIterator[Outlines]:
    outlines = Outlines(ReaderConfig(processes=1, seconds=seconds, memory=MEMORY))
    try:
        yield outlines
    finally:
        await outlines.close()


async def title(outlines: Outlines, text: str) -> str | None:
    """Returns the title found by the process, or the error message."""
    try:
        outline = await outlines.read(page(text), facts=True, simhash=True)
    except UnreadableDocument as error:
        return str(error)
    assert outline is not None and outline.facts is not None
    return outline.facts.title


async def titles(outlines: Outlines, *texts: str) -> list[str | None]:
    return await asyncio.gather(*(title(outlines, text) for text in texts))


def pid_of(outlines: Outlines) -> int:
    assert outlines._process is not None and outlines._process._process is not None
    return outlines._process._process.pid


def memory_of(pid: int) -> dict[str, int]:
    """Returns what the system says of the memory of a process, in KiB, by name."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {
        name: int(size.split()[0])
        for name, _, size in (line.partition(":") for line in lines)
        if "kB" in size
    }


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline_process, "CHILD", BREAKING)


async def test_concurrent_pages_each_get_their_own_outline() -> None:
    texts = [f"number {number}" for number in range(300)]
    async with started() as outlines:
        assert await titles(outlines, *texts) == texts
        pid = pid_of(outlines)
        assert await titles(outlines, "more") == ["more"]
        assert pid_of(outlines) == pid != os.getpid()
    assert not is_alive(pid)


async def test_large_and_small_pages_can_be_mixed() -> None:
    sizes = [1, 400_000, 10, 300_000, 70_000, 1]
    async with started() as outlines:
        pages = [
            Document(
                f"<title>{size}</title>{'<p>x' * (size // 4)}".encode(),
                "text/html",
                "utf-8",
                "http://a.test/",
            )
            for size in sizes
        ]
        made = await asyncio.gather(*(outlines.read(one, facts=True, simhash=False) for one in pages))
        assert [one.facts.title for one in made if one and one.facts] == [str(size) for size in sizes]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and needs the C library that keeps memory")
async def test_the_process_keeps_no_memory_of_a_large_page() -> None:
    large = Document(b"<p>text" * 170_000, "text/html", "utf-8", "http://a.test/")
    async with started() as outlines:
        await outlines.read(large, facts=False, simhash=False)
        await titles(outlines, "next")  # is read once memory was returned
        memory = memory_of(pid_of(outlines))
        assert memory["VmRSS"] < memory["VmHWM"] - 20_000, memory


@pytest.mark.usefixtures("breaking")
async def test_page_that_breaks_the_process_is_refused_and_others_are_read() -> None:
    async with started() as outlines:
        for kind, error in ERRORS.items():
            texts = ["before", "and before", f"{kind} this", "after", "and after"]
            assert await titles(outlines, *texts) == [*texts[:2], error, *texts[3:]], kind
            assert await titles(outlines, "later") == ["later"], kind


@pytest.mark.usefixtures("breaking")
async def test_crash_on_the_first_page_is_attributed_to_it() -> None:
    async with started() as outlines:
        assert await titles(outlines, "crash", "after") == [ERRORS["crash"], "after"]


@pytest.mark.usefixtures("breaking")
async def test_page_that_exceeds_the_time_limit_is_refused() -> None:
    async with started(seconds=2.0) as outlines:
        late = "takes longer than 2 s"
        assert await titles(outlines, "before", "hang", "after") == ["before", late, "after"]


async def test_blocked_event_loop_is_not_counted_as_reading_time() -> None:
    async with started(seconds=2.0) as outlines:
        await titles(outlines, "before")
        running = asyncio.ensure_future(titles(outlines, *map(str, range(50))))
        await asyncio.sleep(0)
        time.sleep(4.0)
        assert await running == list(map(str, range(50)))


async def test_killed_process_is_replaced() -> None:
    async with started() as outlines:
        await titles(outlines, "before")
        first = pid_of(outlines)
        os.kill(first, signal.SIGKILL)
        assert await titles(outlines, "after") == ["after"]
        running = asyncio.ensure_future(titles(outlines, *map(str, range(200))))
        await asyncio.sleep(0)
        os.kill(pid_of(outlines), signal.SIGKILL)
        assert await running == list(map(str, range(200)))


async def test_process_ignores_termination_signals() -> None:
    async with started() as outlines:
        await titles(outlines, "before")
        pid = pid_of(outlines)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
            assert await titles(outlines, "after") == ["after"], number
            assert pid_of(outlines) == pid, number


@pytest.mark.parametrize(
    "child", ["webcrawl.documents.mime.missing", "tests.unit.documents.mime.stubborn", "this"]
)
async def test_process_that_cannot_be_started_gives_no_outlines(
    child: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outline_process, "CHILD", child)
    async with started() as outlines:
        pending = [outlines.read(page("page"), facts=True, simhash=True) for _ in range(3)]
        assert await asyncio.gather(*pending) == [None] * 3
        assert await outlines.read(page("page"), facts=True, simhash=True) is None
    assert caplog.text.count("it is parsed in the worker") == 1


@pytest.mark.usefixtures("breaking")
async def test_close_resolves_pending_pages_to_none() -> None:
    async with started() as outlines:
        await titles(outlines, "before")
        pid = pid_of(outlines)
        running = [
            asyncio.ensure_future(outlines.read(page(one), facts=True, simhash=True)) for one in ("hang", "x")
        ]
        await asyncio.sleep(0)
        await outlines.close()
        assert await asyncio.gather(*running) == [None, None]
        assert not is_alive(pid)


async def test_close_during_the_start_resolves_to_none() -> None:
    async with started() as outlines:
        running = asyncio.ensure_future(outlines.read(page("page"), facts=True, simhash=True))
        await asyncio.sleep(0.05)
        await outlines.close()
        assert await running is None


async def test_unreadable_body_does_not_affect_other_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = page("lost")

    def fail(body: object) -> bytes:
        raise OSError("No such file")

    async with started() as outlines:
        await titles(outlines, "before")
        with monkeypatch.context() as patched:
            patched.setattr("webcrawl.documents.body.Body.__bytes__", fail)
            with pytest.raises(OSError, match="No such file"):
                await outlines.read(lost, facts=True, simhash=True)
        assert await titles(outlines, "after", "and after") == ["after", "and after"]


async def test_cancelled_page_leaves_no_answer_for_the_next_one() -> None:
    async with started() as outlines:
        await titles(outlines, "before")
        waiting = asyncio.ensure_future(titles(outlines, "mine"))
        await asyncio.sleep(0)
        waiting.cancel()
        assert await titles(outlines, "next") == ["next"]


def test_pages_sent_while_a_process_ends_use_the_next_one() -> None:
    """Uses uvloop, where writing to a closed transport raises."""

    async def run() -> None:
        async with started() as outlines, asyncio.timeout(60):
            await titles(outlines, "before")
            os.kill(pid_of(outlines), signal.SIGKILL)
            running = []
            for number in range(100):
                running.append(asyncio.ensure_future(title(outlines, str(number))))
                await asyncio.sleep(0.001)
            assert await asyncio.gather(*running) == list(map(str, range(100)))

    uvloop.run(run())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_process_that_exits_when_ready_fails_its_pages(
    run: Callable[[Coroutine[Any, Any, None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outline_process, "CHILD", "tests.unit.documents.html.gone_when_ready")

    async def ask() -> None:
        async with started() as outlines, asyncio.timeout(60):
            assert await titles(outlines, "one", "two") == ["made its reader process exit with status 0"] * 2

    run(ask())


@pytest.mark.usefixtures("breaking")
async def test_page_that_crashed_the_process_is_refused_even_without_a_replacement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outline_process, "_RESTART_PAUSES", (0.01, 0.01))
    async with started() as outlines:
        await titles(outlines, "before")
        monkeypatch.setattr(outline_process, "CHILD", "webcrawl.documents.mime.missing")
        pending = [outlines.read(page(text), facts=True, simhash=True) for text in ("crash", "after")]
        crashed, after = await asyncio.gather(*pending, return_exceptions=True)
        assert str(crashed) == ERRORS["crash"] and after is None


async def test_pages_wait_for_a_process_that_starts_after_retries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outline_process, "_RESTART_PAUSES", (0.3, 0.3, 0.3))
    async with started() as outlines:
        await titles(outlines, "before")
        with monkeypatch.context() as patched:
            patched.setattr(outline_process, "CHILD", "webcrawl.documents.mime.missing")
            os.kill(pid_of(outlines), signal.SIGKILL)
            running = asyncio.ensure_future(titles(outlines, "after"))
            await asyncio.sleep(0.3)
        assert await running == ["after"]


async def test_first_page_is_retried_when_a_starting_process_is_killed() -> None:
    async with started() as outlines:
        running = asyncio.ensure_future(title(outlines, "innocent"))
        while outlines._process is None:
            await asyncio.sleep(0)
        os.kill(pid_of(outlines), signal.SIGKILL)
        assert await running == "innocent"


kinds = st.sampled_from(["fine", *ERRORS])
steps = st.lists(st.lists(kinds, min_size=1, max_size=4), min_size=1, max_size=3)


@pytest.mark.slow
@pytest.mark.usefixtures("breaking")
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps)
def test_any_sequence_of_pages_gives_each_page_its_own_result(batches: list[list[str]]) -> None:
    async def run() -> None:
        number = 0
        async with started() as outlines:
            for batch in batches:
                texts = [f"{kind} {number + place}" for place, kind in enumerate(batch)]
                number += len(batch)
                expected = [ERRORS.get(kind, text) for kind, text in zip(batch, texts, strict=True)]
                assert await titles(outlines, *texts) == expected

    asyncio.run(run())


PARENT = """
import asyncio
from webcrawl.config import ReaderConfig
from webcrawl.documents.document import Document
from webcrawl.documents.html.outline_process import Outlines

async def main():
    outlines = Outlines(ReaderConfig(processes=1, seconds=60, memory=1 << 29))
    await outlines.read(Document(b"x", "text/html", "utf-8", "http://a.test/"), facts=True, simhash=True)
    print(outlines._process._process.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_process_exits_with_its_worker() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait(60)
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("told", "seconds"), [(2.5, 2.5), (0, 0), (-1, 0), (1e9, 0), (math.inf, 0), (math.nan, 0)]
)
async def test_processor_time_that_a_process_tells_is_bounded(told: float, seconds: float) -> None:
    process = ChildProcess(lambda answer: True)
    for answer, said in ((READY, 0.0), (b"answer", told)):
        process.data_received(ANSWER_HEAD.pack(len(answer), said) + answer)
    assert (process.answers, process.seconds) == (1, seconds)
