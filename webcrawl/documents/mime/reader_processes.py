"""Reads documents other than HTML in processes of their own, so that a document that hangs or crashes fails alone.

A process starts when it is needed and reads one document at a time. It is replaced when it takes too long, ends, or
has read many documents. If a used process ends with a document, a new process reads that document once more: earlier
documents may have damaged the old process. Sites take turns; see `webcrawl.documents.mime.reader_queue`.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeAlias, TypeVar

import msgpack

from webcrawl.config import ReaderConfig
from webcrawl.documents import child_process
from webcrawl.documents.child_process import PATIENCE, ChildProcess
from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts, unpack
from webcrawl.documents.mime.large_links import BYTES, LargeLinks
from webcrawl.documents.mime.reader import NO_ARGUMENTS
from webcrawl.documents.mime.reader_queue import ReaderQueue
from webcrawl.errors import ReaderEnded, ResourcesExhausted, UnreadableDocument

CHILD = "webcrawl.documents.mime.reader_child"
_LEAST_WAIT = 0.05
T = TypeVar("T")
Charge: TypeAlias = Callable[[str, float], None]
"""Is called with the URL of each document and the processor seconds of reading it."""

MAX_DOCUMENTS = 1_000
"""The documents after which a process is replaced: libraries leak memory."""
LEAST_MEMORY = 128 * 1024 * 1024
"""The bytes of memory that any document may take, or an eighth of MIME_MEMORY if that is more."""
MEMORY_RATIO = 48
"""The further bytes that a document may take for each byte of its body: a PDF of 1 MB can unpack to many GB."""


def allowance(size: int, memory: int) -> int:
    """Returns the bytes of address space that a document of `size` bytes may take in a process limited to `memory`."""
    return min(memory, max(LEAST_MEMORY, memory // 8) + MEMORY_RATIO * size)


@dataclass(frozen=True, slots=True)
class _Question(Generic[T]):
    """A document for a reader ("module:name") with keyword arguments; see `Readers.ask`."""

    reader: str
    document: Document
    unpacked: Callable[[bytes | bytearray], T]
    memory: int | None
    arguments: Mapping[str, Any]

    def message(self, seconds: float, path: str | None, size: int) -> bytes:
        """Returns the message that `reader_child` reads."""
        document = self.document
        about = document.mime_type, document.charset, document.url, path
        asked = self.reader, seconds, self.memory, self.arguments, *about
        return child_process.question(msgpack.packb(asked), size)


class _Reader:
    """A process and the document that it is reading."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[bytes | bytearray] | None = None
        self.documents = 0
        self.is_idle = False
        """Whether the process has answered and can read another document."""

    process: ChildProcess

    @classmethod
    async def start(cls, memory: int) -> Self:
        """Starts a process; raises OSError, TimeoutError or ReaderEnded."""
        reader = cls()
        reader.process = await ChildProcess.start(CHILD, memory, reader._receive)
        return reader

    async def read(self, question: _Question[T], limits: ReaderConfig) -> T:
        """Returns the unpacked answer; raises UnreadableDocument or TimeoutError."""
        self.documents += 1
        self.is_idle = False
        self._answer = given = asyncio.get_running_loop().create_future()
        began, waited = time.monotonic(), self.process.waited_seconds()
        async with asyncio.timeout(PATIENCE * limits.seconds):
            async with asyncio.timeout(limits.seconds):
                await self._send(question, limits)
            outcomes: list[asyncio.Future[Any]] = [given, self.process.ended]
            left = began + limits.seconds - time.monotonic()
            while not (await asyncio.wait(outcomes, timeout=left, return_when=asyncio.FIRST_COMPLETED))[0]:
                read = time.monotonic() - began - (self.process.waited_seconds() - waited)
                left = limits.seconds - read
                if left <= 0:
                    raise TimeoutError
                left = max(left, _LEAST_WAIT)
        if not given.done():
            why = await self.process.end()
            if self.process.exit_code == -signal.SIGXCPU:
                raise TimeoutError
            raise ReaderEnded(why)
        self.is_idle, self._answer = True, None  # an answer may have 32 MB
        try:
            return question.unpacked(given.result())
        except ResourcesExhausted:
            self.is_idle = False
            raise
        except ValueError as error:
            self.is_idle = False
            raise ReaderEnded(f"made its reader process send an invalid answer: {error}") from error

    async def _send(self, question: _Question[Any], limits: ReaderConfig) -> None:
        document = question.document
        path = document.path if self.process.opens_files else None
        # a longer body would not fit into the child's memory; many readers need only the header
        size = 0 if path else min(len(document), limits.memory // 4)
        self.process.write(question.message(limits.seconds, path, size))
        for chunk in document.chunks() if size else ():
            if not self.process.write(chunk[:size]):
                break
            await self.process.drain()
            size -= len(chunk)
            if size <= 0:
                break

    def _receive(self, answer: bytes | bytearray) -> bool:
        if self._answer is None or self._answer.done():
            return False
        self._answer.set_result(answer)
        return True


class Readers:
    """The processes of one worker; its methods are called in one event loop."""

    def __init__(self, limits: ReaderConfig, charge: Charge = lambda url, seconds: None) -> None:
        self.limits = limits
        self.charge = charge
        self.queue = ReaderQueue(limits.processes)
        self.documents: Counter[Document] = Counter()
        """The documents that are read or wait, with the number of holders that count each."""
        self.on_aside: Callable[[], None] = lambda: None
        """Is called when a document is added to `documents`."""
        self.large_links = LargeLinks()
        self._idle: list[_Reader] = []

    async def read(self, function: str, document: Document) -> Facts:
        """Returns the facts that a function ("module:name") reads from a document; raises UnreadableDocument.

        A large text or list of links waits while many links of other documents are in memory.
        """
        size, expected = len(document), self.large_links.document(len(document), document.mime_type)
        async with AsyncExitStack() as reading:
            if expected:
                with self.aside(document):
                    await reading.enter_async_context(self.large_links.room(expected))
            facts = await self.ask(function, document, unpack, allowance(size, self.limits.memory))
        if expected or size > BYTES:
            facts.links = self.large_links.hold_links(facts.links)
        return facts

    async def ask(
        self,
        function: str,
        document: Document,
        unpacked: Callable[[bytes | bytearray], T],
        memory: int | None = None,
        arguments: Mapping[str, Any] = NO_ARGUMENTS,
    ) -> T:
        """Returns the answer of a function, unpacked by `unpacked`, which raises ValueError for an invalid answer.

        `memory`: the bytes that the document may take; None for the limit of its process. `arguments`: the keyword
        arguments of the function, which MessagePack can pack. Raises UnreadableDocument.
        """
        question = _Question(function, document, unpacked, memory, dict(arguments))
        with self.unused(document):
            async with self.queue.turn(document.url):
                if self._idle:
                    with suppress(ReaderEnded, ResourcesExhausted):
                        return await self._read_in(self._idle.pop(), question)
                return await self._read_in(await self._start(), question)

    @contextmanager
    def aside(self, document: Document) -> Iterator[None]:
        """Counts a document that another process reads, in `documents` and against the room of its site."""
        with self.unused(document), self.queue.hold(document.url):
            yield

    @contextmanager
    def unused(self, document: Document) -> Iterator[None]:
        """Counts a document that waits without needing a process, in `documents` alone."""
        self.documents[document] += 1
        self.on_aside()
        try:
            yield
        finally:
            self.documents[document] -= 1
            if not self.documents[document]:
                del self.documents[document]

    async def _read_in(self, reader: _Reader, question: _Question[T]) -> T:
        """Returns the answer of this process; raises UnreadableDocument."""
        began = time.monotonic()
        try:
            return await reader.read(question, self.limits)
        except TimeoutError:
            raise UnreadableDocument(f"takes longer than {self.limits.seconds:g} s") from None
        finally:
            # a killed process cannot report its processor time
            took = reader.process.seconds if reader.is_idle else time.monotonic() - began
            self.charge(question.document.url, took)
            if reader.is_idle and reader.documents < MAX_DOCUMENTS:
                self._idle.append(reader)
            else:
                await reader.process.end()

    async def close(self) -> None:
        """Ends the idle processes; the others end with the calls of `read` that wait for them."""
        while self._idle:
            await self._idle.pop().process.end()

    async def _start(self) -> _Reader:
        try:
            return await _Reader.start(self.limits.memory)
        except (OSError, TimeoutError, ReaderEnded) as error:
            raise UnreadableDocument(f"has no process to read it: {error}") from error
