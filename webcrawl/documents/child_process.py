"""The parent's side of a child process that reads documents.

`webcrawl.documents.sandbox` is the other side, and describes the messages.

Two classes use it. `html.outline_process.Outlines` has one child. It streams pages to the child without waiting for
answers, so that neither process waits for the other. After a crash it determines which page caused it. Without a
child, the worker parses HTML itself. `mime.reader_processes.Readers` has several children and gives each of them a
single document at a time. Reading may take seconds, and the child is killed at a time limit. Without a child, the
document has an error.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self, cast

from webcrawl.documents.sandbox import (
    ANSWER_HEAD,
    OUT_OF_MEMORY_STATUS,
    QUESTION_HEAD,
    READY,
    READY_WITH_FILES,
)
from webcrawl.errors import ReaderEnded

START_SECONDS = 60.0
"""How long a child may take to start, which includes imports on a busy machine."""
PATIENCE = 10
"""Reading a document may take so many times the limit on a busy system: waiting for a processor is no reading."""
_SOCKET_BUFFER = 1024 * 1024
_MAX_ANSWER = 32 * 1024 * 1024
_LARGE_ANSWER = 1024 * 1024
_MOST_SECONDS = 86_400.0


class ChildProcess(asyncio.Protocol):
    """A process that was started with `python -m MODULE MEMORY`.

    receive   is called with each answer and returns whether it is valid; an invalid answer ends the process
    ended     is done when the process has closed its end of the socket
    answers   the number of valid answers
    seconds   the processor seconds that the last answer took
    """

    def __init__(self, receive: Callable[[bytes | bytearray], bool]) -> None:
        self._receive = receive
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._fault: str | None = None
        self._is_ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answers = 0
        self.seconds = 0.0
        self.opens_files = False

    @classmethod
    async def start(cls, module: str, memory: int, receive: Callable[[bytes | bytearray], bool]) -> Self:
        """Returns a process that is ready; raises OSError, TimeoutError or ReaderEnded.

        `memory` limits its address space, in bytes.
        """
        self = cls(receive)
        try:
            await self._spawn(module, memory)
            async with asyncio.timeout(START_SECONDS):
                await asyncio.wait([self._is_ready, self.ended], return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await self.end()
            raise
        if not self._is_ready.done():
            raise ReaderEnded(await self.end())
        return self

    async def _spawn(self, module: str, memory: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            for end in (ours, theirs):
                end.setblocking(end is theirs)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
            try:
                await asyncio.get_running_loop().create_connection(lambda: self, sock=ours)
            except BaseException:
                ours.close()
                raise
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module, str(memory)),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=asyncio.subprocess.DEVNULL,
                env=_environment(),
            )

    def cpu_seconds(self) -> float:
        """Returns the processor seconds of the process so far on Linux, and a monotonic clock on other systems."""
        if sys.platform == "linux" and self._process is not None:
            with suppress(OSError):  # it has ended
                return time.clock_gettime(~self._process.pid << 3 | 2)  # as clock_getcpuclockid(3) makes it
        return time.monotonic()

    def waited_seconds(self) -> float:
        """Returns the seconds in which the process could run and no processor was free, so far; 0 if unknown."""
        if self._process is not None:
            with suppress(OSError, ValueError, IndexError):  # it has ended, or the system does not count them
                fields = Path(f"/proc/{self._process.pid}/schedstat").read_text().split()
                return int(fields[1]) / 1e9
        return 0.0

    @property
    def exit_code(self) -> int | None:
        """As in `subprocess`: a status, a negative signal number, or None while it runs."""
        return self._process.returncode if self._process else None

    @property
    def was_killed(self) -> bool:
        """Whether another process killed it, such as the kernel when memory runs out."""
        return self._fault is None and self.exit_code == -signal.SIGKILL

    def write(self, *parts: bytes) -> bool:
        """Sends bytes without waiting; returns False if the process has ended."""
        assert self._transport is not None
        if self._transport.is_closing():
            return False
        for part in parts:
            self._transport.write(part)
        return True

    async def drain(self) -> None:
        """Waits until the process has read most of what was written, or has ended."""
        await self._may_write.wait()

    def kill(self, fault: str) -> None:
        """Kills the process; `end` then returns `fault` as the reason."""
        self._fault = self._fault or fault
        if self._transport is not None:
            self._transport.abort()

    async def end(self) -> str:
        """Ends the process if it still runs; returns why it ended, as the end of a sentence about its document."""
        if self._transport is not None:
            self._transport.abort()
        if self._process is None:
            return "has no reader process"
        # a process that exits closes its socket first: its own exit code follows in a moment
        with suppress(TimeoutError):
            if self._fault is None and self.ended.done():
                async with asyncio.timeout(1):
                    await self._process.wait()
        with suppress(ProcessLookupError):
            self._process.kill()
        code = await self._process.wait()
        return self._fault or _reason(code)

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's transports derive from no such class

    def connection_lost(self, error: Exception | None) -> None:
        self._may_write.set()
        if not self.ended.done():
            self.ended.set_result(None)

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def data_received(self, data: bytes) -> None:
        buffer, position = self._buffer, 0
        buffer += data
        while len(buffer) >= (start := position + ANSWER_HEAD.size):
            length, seconds = ANSWER_HEAD.unpack_from(buffer, position)
            if length > _MAX_ANSWER:
                self.kill("made its reader process send an oversized answer")
                return
            if len(buffer) < start + length:
                break
            position = start + length
            # a child that a document has taken over may send anything, also NaN
            self.seconds = seconds if 0 <= seconds <= _MOST_SECONDS else 0.0
            answer: bytes | bytearray
            if length >= _LARGE_ANSWER and position == len(buffer):
                # an answer may have 32 MB: do not copy it
                answer, self._buffer = buffer, bytearray()
                del answer[:start]
                buffer, position = self._buffer, 0
            else:
                answer = bytes(memoryview(buffer)[start:position])
            if not self._accept(answer):
                self.kill("made its reader process send an invalid answer")
                return
        del buffer[:position]

    def _accept(self, answer: bytes | bytearray) -> bool:
        if not self._is_ready.done():
            self.opens_files = answer == READY_WITH_FILES
            if answer in (READY, READY_WITH_FILES):
                self._is_ready.set_result(None)
                return True
            return False
        if not self._receive(answer):
            return False
        self.answers += 1
        return True


def question(packed: bytes, body_length: int) -> bytes:
    """Returns the bytes of a question up to its body: both lengths and `packed`, the question in MessagePack."""
    return QUESTION_HEAD.pack(len(packed), body_length) + packed


def _reason(code: int) -> str:
    if code == OUT_OF_MEMORY_STATUS:
        return "takes more memory than allowed"
    if code < 0:
        return f"crashed its reader process with {signal.Signals(-code).name} (out of memory, or a library's bug)"
    return f"made its reader process exit with status {code}"


def _environment() -> dict[str, str]:
    """Returns this process's environment and import path, with one thread and two malloc arenas instead of many."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MALLOC_ARENA_MAX": "2",
        "OMP_NUM_THREADS": "1",
    }
