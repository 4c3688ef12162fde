"""Reader processes: documents that hang, exhaust memory or crash a library do not affect the worker."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgpack
import pytest

from tests.crawls import CHECKOUT
from tests.processes import cpu_ticks, is_alive, resident_megabytes
from webcrawl.config import ReaderConfig, Spool
from webcrawl.documents.body_writer import BodyWriter
from webcrawl.documents.document import Document
from webcrawl.documents.mime import reader_processes
from webcrawl.documents.mime.facts import MAX_LINKS, MAX_TEXT, MAX_TITLE, Facts, pack, unpack
from webcrawl.documents.mime.reader_processes import Readers
from webcrawl.errors import UnreadableDocument

MEMORY = 512 * 1024 * 1024


def document(text: str = "text") -> Document:
    return Document(text.encode(), "text/plain", "utf-8", "http://site.example/")


@asynccontextmanager
async def started(*, processes: int = 1, seconds: float = 20.0) -> AsyncIterator[Readers]:
    readers = Readers(ReaderConfig(processes=processes, seconds=seconds, memory=MEMORY))
    try:
        yield readers
    finally:
        await readers.close()


async def read(readers: Readers, name: str, text: str = "text") -> Facts:
    return await readers.read(f"tests.unit.documents.mime.stubborn:{name}", document(text))


async def error_of(readers: Readers, name: str) -> str:
    with pytest.raises(UnreadableDocument) as error:
        await read(readers, name)
    return str(error.value)


async def test_a_process_gives_back_the_memory_that_a_large_document_took() -> None:
    async with started() as readers:
        before, after = (await read(readers, "title")).details["pid"], await read(readers, "fill")
        assert (after.title, after.details["pid"]) == ("50000", before)
        for _ in range(50):
            if (used := resident_megabytes(before)) < 80:
                break
            await asyncio.sleep(0.05)
        assert used < 80


async def test_process_starts_at_first_use_and_is_reused() -> None:
    async with started() as readers:
        first, second = [await read(readers, "title", f"number {number}") for number in (1, 2)]
        assert (first.title, second.title) == ("number 1", "number 2")
        assert first.details["pid"] == second.details["pid"] != os.getpid()


FAILURES = {
    "crash": "SIGSEGV",
    "leave": "exit with status 3",
    "grow": "takes more memory than allowed",
    "recurse": "is nested too deep",
    "raise_odd": "KeyError: '/Root'",
    "refuse": "is of another century",
    "missing": "AttributeError",
}


async def test_failed_document_raises_and_the_next_one_is_read() -> None:
    async with started() as readers:
        for name, error in FAILURES.items():
            assert error in await error_of(readers, name)
            assert (await read(readers, "title", "next")).title == "next", name


@pytest.mark.parametrize("name", ["hang", "spin"])
async def test_reader_that_exceeds_the_time_limit_is_killed(name: str) -> None:
    async with started(seconds=20) as readers:
        pid = (await read(readers, "title")).details["pid"]
        readers.limits = ReaderConfig(processes=1, seconds=0.3, memory=MEMORY)
        assert await error_of(readers, name) == "takes longer than 0.3 s"
        assert not Path(f"/proc/{pid}").exists()
        readers.limits = ReaderConfig(processes=1, seconds=20, memory=MEMORY)
        assert (await read(readers, "title", "next")).details["pid"] != pid


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the time")
async def test_time_without_a_processor_does_not_count() -> None:
    async with started(seconds=20) as readers:
        pid = (await read(readers, "title")).details["pid"]
        processor = min(os.sched_getaffinity(0))
        os.sched_setaffinity(pid, {processor})
        spin = f"import os\nos.sched_setaffinity(0, {{{processor}}})\nwhile True: pass"
        others = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(8)]
        try:
            readers.limits = ReaderConfig(processes=1, seconds=1.0, memory=MEMORY)
            began = time.monotonic()
            await read(readers, "work")
            took = time.monotonic() - began
        finally:
            for other in others:
                other.kill()
                other.wait()
        assert (await read(readers, "title")).details["pid"] == pid, f"it was killed after {took} s"


async def test_the_processor_time_of_each_document_is_charged() -> None:
    charged: list[tuple[str, float]] = []
    async with started(seconds=20) as readers:
        readers.charge = lambda url, seconds: charged.append((url, seconds))
        await read(readers, "work")
        await read(readers, "title")
        readers.limits = ReaderConfig(processes=1, seconds=0.3, memory=MEMORY)
        await error_of(readers, "hang")
    assert {url for url, _ in charged} == {document().url}
    work, title, hang = (seconds for _, seconds in charged)
    assert title < 0.2 <= work, "the time of a document that came before is not included"
    assert hang >= 0.3, "of a process that was killed, the time that it ran counts"


async def test_document_is_retried_when_the_process_was_damaged_before() -> None:
    async with started() as readers:
        pid = (await read(readers, "title")).details["pid"]
        assert isinstance(pid, int)
        os.kill(pid, signal.SIGKILL)
        assert (await read(readers, "title", "next")).title == "next"
        for _ in range(2):
            assert (await read(readers, "fail_if_used")).title == "new"


async def test_reader_ignores_termination_signals() -> None:
    async with started() as readers:
        pid = (await read(readers, "title")).details["pid"]
        assert isinstance(pid, int)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
            assert (await read(readers, "title")).details["pid"] == pid, number


async def test_parallel_reads_use_at_most_the_configured_processes() -> None:
    async with started(processes=2) as readers:
        facts = await asyncio.gather(*(read(readers, "title", str(number)) for number in range(20)))
        assert [one.title for one in facts] == [str(number) for number in range(20)]
        assert len({one.details["pid"] for one in facts}) <= 2


async def test_cancelled_read_leaves_no_answer_for_the_next_one() -> None:
    async with started() as readers:
        await read(readers, "title")
        waiting = asyncio.ensure_future(read(readers, "hang"))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await read(readers, "title", "mine")).title == "mine"


def spooled(folder: Path, size: int) -> Document:
    writer = BodyWriter(Spool(folder))
    writer.add(b"head" + bytes(size - 4))
    return Document(writer.finish(), "video/mp4", None, "http://site.example/")


async def test_spooled_body_is_opened_by_path_or_else_sent(tmp_path: Path) -> None:
    size = 300_000
    async with started() as readers:
        facts = await readers.read("tests.unit.documents.mime.stubborn:measure", spooled(tmp_path, size))
        assert facts.title == "head"
        assert (facts.details["size"], facts.details["end"]) == (size, size)
        assert facts.details["in_file"] is opens_files(readers)
        readers._idle[0].process.opens_files = False
        facts = await readers.read("tests.unit.documents.mime.stubborn:measure", spooled(tmp_path, size))
        assert facts.details == {"size": size, "end": size, "in_file": False}


async def test_start_of_a_body_is_sent_when_it_exceeds_the_memory(tmp_path: Path) -> None:
    async with started() as readers:
        await read(readers, "title")
        readers._idle[0].process.opens_files = False
        readers.limits = ReaderConfig(processes=1, seconds=20, memory=1_000_000)
        facts = await readers.read("tests.unit.documents.mime.stubborn:measure", spooled(tmp_path, 2_000_000))
        assert facts.details["size"] == 250_000
        assert (await read(readers, "title", "next")).title == "next"


def opens_files(readers: Readers) -> bool:
    return readers._idle[0].process.opens_files


async def test_output_of_a_library_is_ignored() -> None:
    async with started() as readers:
        assert (await read(readers, "chatter")).title == "quiet"
        assert (await read(readers, "title", "next")).title == "next"


async def test_facts_are_bounded() -> None:
    async with started() as readers:
        facts = await read(readers, "endless")
        assert (len(facts.title or ""), len(facts.text or "")) == (MAX_TITLE, MAX_TEXT - 1)
        assert len(facts.links) == MAX_LINKS
        assert len(msgpack.packb(facts.details)) < 600_000
        odd = await read(readers, "odd_values")
        assert (odd.title, odd.author) == ("a\ufffdb?c", None)
        assert odd.details == {"huge": str(10**40), "nul": "a\ufffdb", "half": "?"}


async def test_process_is_replaced_after_many_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_processes, "MAX_DOCUMENTS", 3)
    async with started() as readers:
        pids = [(await read(readers, "title")).details["pid"] for _ in range(7)]
        assert [len({*pids[start : start + 3]}) for start in (0, 3)] == [1, 1]
        assert len({*pids}) == 3


async def test_reader_cannot_write_start_programs_or_use_the_network(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        async with started() as readers:
            facts = await read(readers, "break_out", f"127.0.0.1:{port} {tmp_path / 'written'}")
    assert facts.details == {}, "no forbidden action succeeded"
    assert not (tmp_path / "written").exists() or not (tmp_path / "written").read_text()


def test_malformed_answer_of_a_reader_is_rejected() -> None:
    good = pack(Facts(title="title"))
    assert unpack(good).title == "title"
    plain = msgpack.unpackb(good)
    wrong = [
        {**plain, "title": 7},
        {**plain, "title": "x" * 2_000},
        {**plain, "links": [["http://x.example/", "yesterday"]]},
        {**plain, "links": ["http://x.example/"]},
        {**plain, "published": "yesterday"},
        {**plain, "more": 1},
        {},
        [],
    ]
    for answer in wrong:
        with pytest.raises(ValueError):
            unpack(msgpack.packb(answer))
    with pytest.raises(ValueError):
        unpack(good[:-3])


PARENT = """
import asyncio, sys
from webcrawl.config import ReaderConfig
from webcrawl.documents.document import Document
from webcrawl.documents.mime.reader_processes import Readers

async def main():
    readers = Readers(ReaderConfig(processes=1, seconds=60, memory=1 << 29))
    document = Document(b"x", "text/plain", "utf-8", "http://site.example/")
    print((await readers.read("tests.unit.documents.mime.stubborn:title", document)).details["pid"], flush=True)
    await readers.read("tests.unit.documents.mime.stubborn:spin", document)

asyncio.run(main())
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="on other systems a busy child ends only with its document"
)
def test_busy_child_dies_with_its_worker() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    wait_until(lambda: cpu_ticks(pid) > 20)
    parent.send_signal(signal.SIGKILL)
    parent.wait(60)
    parent.stdout.close()
    wait_until(lambda: not is_alive(pid))


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
