"""HTML is parsed in a process of its own: beside the worker, which fetches on, and without danger for it.

Pages are sent without waiting for the one before, and answered in their order. The process is started for the first of
them; when it dies of one, that one is tried once more in a new process, since those before it may be to blame, and
refused if it happens again. One that takes too long is refused at once, and so is the first that a process gets.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self, cast

import msgpack

from webcrawl.config import ReaderConfig
from webcrawl.documents.document import Document
from webcrawl.documents.html.outline import Outline, unpack
from webcrawl.documents.html.outline_child import HEAD, LENGTH, TOO_MUCH, TOO_MUCH_STATUS
from webcrawl.documents.mime.reader_processes import START_SECONDS, environment, why_ended
from webcrawl.errors import UnreadableDocument

logger = logging.getLogger(__name__)

CHILD = "webcrawl.documents.html.outline_child"
_BUFFER = 1024 * 1024
_LONGEST_ANSWER = 32 * 1024 * 1024
MOST_BYTES = 16 * 1024 * 1024
"""With so many bytes of pages that wait no more should be fetched."""
_MOST_DEATHS = 2
_PAUSES = (0.5, 2.0, 8.0)
"""Seconds between attempts to start it anew."""
_LOOKS = 5
"""How often a page that takes too long is looked at, so that a worker that was held up itself does not blame it."""


@dataclass(eq=False, slots=True)
class _Question:
    """A page that waits for its outline, None where none can be had.

    `asked_of` is the process that it was sent to last, `deaths` are what processes died of with it before them.
    """

    document: Document
    message: bytes
    answer: asyncio.Future[Outline | None]
    asked_of: _Process | None = None
    deaths: list[str] = field(default_factory=list)

    def refuse(self, why: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(UnreadableDocument(why))


class _Process(asyncio.Protocol):
    """One `CHILD`, which answers the questions of a queue from its left."""

    def __init__(self, waiting: deque[_Question]) -> None:
        self._waiting = waiting
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._fault: str | None = None
        loop = asyncio.get_running_loop()
        self.is_ready: asyncio.Future[None] = loop.create_future()
        self.has_ended: asyncio.Future[None] = loop.create_future()
        self.answers = 0
        self.was_late = False
        """A page took too long, and there is no doubt which."""
        self.was_killed = False
        """By somebody else, as a system does that runs out of memory."""

    @classmethod
    async def start(cls, waiting: deque[_Question], memory: int) -> Self:
        """Raises OSError, TimeoutError, UnreadableDocument."""
        own, its = socket.socketpair()
        with its:
            for end in (own, its):
                end.setblocking(end is its)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
            self = cls(waiting)
            try:
                await asyncio.get_running_loop().create_connection(lambda: self, sock=own)
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", CHILD, str(memory)),
                    stdin=its.fileno(),
                    stdout=its.fileno(),
                    stderr=asyncio.subprocess.DEVNULL,
                    env=environment(),
                )
            except BaseException:
                await self.end()
                own.close()
                raise
        try:
            async with asyncio.timeout(START_SECONDS):
                await asyncio.wait([self.is_ready, self.has_ended], return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await self.end()
            raise
        if not self.is_ready.done():
            raise UnreadableDocument(await self.end())
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of no such class

    def ask(self, question: _Question) -> None:
        """Send a question that was put at the end of the queue."""
        assert self._transport is not None
        if not self._transport.is_closing():  # else it is sent to the next one
            question.asked_of = self
            self._transport.write(question.message)

    def data_received(self, data: bytes) -> None:
        received, position = self._received, 0
        received += data
        while len(received) >= (start := position + LENGTH.size):
            (length,) = LENGTH.unpack_from(received, position)
            if length > _LONGEST_ANSWER:
                self.kill("its parser's answer is too long")
                return
            if len(received) < start + length:
                break
            position = start + length
            if not self._take(bytes(received[start:position])):
                self.kill("its parser answers what it was not asked")
                return
        del received[:position]

    def _take(self, answer: bytes) -> bool:
        """Whether an answer is one."""
        if not self.is_ready.done():
            if not answer:
                self.is_ready.set_result(None)
            return not answer
        if not self._waiting:
            return False
        question = self._waiting[0]
        outline: Outline | str
        try:
            outline = unpack(answer, question.document)
        except UnreadableDocument as error:
            outline = str(error)
        except ValueError:
            return False
        self._waiting.popleft()
        self.answers += 1
        if isinstance(outline, str):
            question.refuse(outline)
        elif not question.answer.done():
            question.answer.set_result(outline)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        if not self.has_ended.done():
            self.has_ended.set_result(None)

    def kill(self, fault: str) -> None:
        """End it for a fault of its own."""
        self._fault = self._fault or fault
        if self._transport is not None:
            self._transport.abort()

    async def end(self) -> str:
        """Have it ended, and say what of."""
        if self._transport is not None:
            self._transport.abort()
        if self._process is None:
            return "no process"
        # it closes its end as it ends: what it died of is known in a moment, if it was not we who closed
        with suppress(TimeoutError):
            if self._fault is None and self.has_ended.done():
                async with asyncio.timeout(1):
                    await self._process.wait()
        with suppress(ProcessLookupError):
            self._process.kill()
        code = await self._process.wait()
        self.was_killed = self._fault is None and code == -signal.SIGKILL
        return self._fault or (TOO_MUCH if code == TOO_MUCH_STATUS else why_ended(code))


class Outlines:
    """The process of one worker and the pages that wait for it; its methods are called in one event loop."""

    def __init__(self, limits: ReaderConfig) -> None:
        self._limits = limits
        self._waiting: deque[_Question] = deque()
        self._process: _Process | None = None
        self._serving: asyncio.Task[None] | None = None
        self.bytes = 0
        """Of the pages that wait."""
        self._is_impossible = False
        self._has_started = False

    async def read(self, document: Document, *, facts: bool, simhash: bool) -> Outline | None:
        """The outline of an HTML document, see `outlined`; None where no process can be had.

        Raises UnreadableDocument, and OSError where its body cannot be read.
        """
        if self._is_impossible:
            return None
        answer: asyncio.Future[Outline | None] = asyncio.get_running_loop().create_future()
        question = _Question(document, _message(document, facts, simhash), answer)
        self.bytes += len(question.message)
        try:
            self._waiting.append(question)
            if self._process is not None:
                self._process.ask(question)
            elif self._serving is None:
                self._serving = asyncio.create_task(self._serve())
            return await answer
        finally:
            self.bytes -= len(question.message)

    async def close(self) -> None:
        """End the process; who still waits for it has nothing."""
        self._is_impossible = True  # who comes meanwhile does not wait for it
        if self._serving is not None:
            self._serving.cancel()
            with suppress(asyncio.CancelledError):
                await self._serving
        self._give_up()

    async def _serve(self) -> None:
        """Have a process as long as there are pages for one."""
        try:
            while self._waiting:
                process = await self._started()
                try:
                    self._process = process
                    for question in list(self._waiting):
                        process.ask(question)
                    await self._watch(process)
                finally:
                    self._process = None
                    why = await process.end()
                self._blame(process, why)
        except (OSError, TimeoutError, UnreadableDocument) as error:
            logger.warning("HTML is parsed in the worker: no process for it could be started: %s", error)
            self._give_up()
        except Exception:
            logger.exception("HTML is parsed in the worker: the process for it cannot be spoken with")
            self._give_up()
        finally:
            self._serving = None

    async def _started(self) -> _Process:
        """A new process; tried again where there was one before, as a system may be short of memory for a while."""
        for pause in _PAUSES if self._has_started else ():
            with suppress(OSError, TimeoutError, UnreadableDocument):
                return await _Process.start(self._waiting, self._limits.memory)
            await asyncio.sleep(pause)
        process = await _Process.start(self._waiting, self._limits.memory)
        self._has_started = True
        return process

    async def _watch(self, process: _Process) -> None:
        """Wait for the end of a process, and kill it when a page takes too long."""
        head, looks = None, 0
        while not process.has_ended.done():
            await asyncio.wait([process.has_ended], timeout=self._limits.seconds / _LOOKS)
            first = self._waiting[0] if self._waiting else None
            looks = looks + 1 if first is not None and first is head else 0
            head = first
            if looks >= _LOOKS:
                process.was_late = True
                process.kill(f"takes the parser longer than {self._limits.seconds:g} s")

    def _blame(self, process: _Process, why: str) -> None:
        """A process died of the first page that waits for it, or of what was before."""
        first = self._waiting[0] if self._waiting else None
        if first is None or first.asked_of is not process:
            logger.warning("The process that parses HTML ended: %s", why)
            return
        logger.warning("The process that parses HTML ended with %s: %s", first.document.url, why)
        first.deaths.append(why)
        is_certain = process.was_late or not (process.answers or process.was_killed)
        if is_certain or len(first.deaths) >= _MOST_DEATHS:
            self._waiting.popleft().refuse(why)

    def _give_up(self) -> None:
        """Nobody has an answer any more; what a process died of is not for the worker."""
        self._is_impossible = True
        while self._waiting:
            question = self._waiting.popleft()
            if question.deaths:
                question.refuse(question.deaths[-1])
            elif not question.answer.done():
                question.answer.set_result(None)


def _message(page: Document, facts: bool, simhash: bool) -> bytes:
    question, body = msgpack.packb((page.charset, page.mime_type, page.url, facts, simhash)), page.body
    return b"".join((HEAD.pack(len(question), len(body)), question, body))
