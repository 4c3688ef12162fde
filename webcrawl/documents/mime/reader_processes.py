"""Readers in processes of their own: a document that hangs, eats memory or crashes its library costs no other one.

A process is started when it is first needed and used again and again; one that takes too long, grows too large or dies
is replaced. A document with which a used process dies is read once more in a new one; then it has an error.
"""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import sys
from contextlib import suppress
from typing import Any, Self

import msgpack

from webcrawl.config import ReaderConfig
from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts, unpack
from webcrawl.errors import ReaderEnded, UnreadableDocument

START_SECONDS = 60.0
"""To import what every reader needs, on a machine that is busy."""
MOST_DOCUMENTS = 1_000
"""After as many a process is replaced: libraries leak."""
_LONGEST_ANSWER = 32 * 1024 * 1024
_HEAD = struct.Struct(">I")


class _Process:
    """One `webcrawl.documents.mime.reader_child`; see there for what is said."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._opens_files = False
        self.documents = 0
        self.is_idle = False
        """It has answered, and can be asked again."""

    @classmethod
    async def start(cls, memory: int) -> Self:
        """Raises OSError, ReaderEnded, TimeoutError."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "webcrawl.documents.mime.reader_child", str(memory)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment(),
        )
        reader = cls(process)
        try:
            async with asyncio.timeout(START_SECONDS):
                reader._opens_files = bool((await reader._receive()).get("opens"))
        except BaseException:
            await reader.end()
            raise
        return reader

    async def ask(self, reader: str, document: Document, limits: ReaderConfig) -> Facts:
        """Raises UnreadableDocument, ReaderEnded, TimeoutError."""
        self.documents += 1
        self.is_idle = False
        path = document.path if self._opens_files else None
        # beyond that it would not fit anyway; a reader that needs no more than a header has it
        size = 0 if path else min(len(document), limits.memory // 4)
        question = {
            "reader": reader,
            "seconds": limits.seconds,
            "mime_type": document.mime_type,
            "charset": document.charset,
            "url": document.url,
            "path": path,
            "size": size,
        }
        async with asyncio.timeout(limits.seconds):
            with suppress(ConnectionError):  # its end is told below
                await self._send(question, document, size)
            answer = await self._receive()
        facts = _facts(answer)
        self.is_idle = True
        if facts is None:
            raise UnreadableDocument(str(answer["error"])[:1000])
        return facts

    async def _send(self, question: dict[str, Any], document: Document, size: int) -> None:
        sink = self._process.stdin
        assert sink is not None
        data = msgpack.packb(question)
        sink.write(_HEAD.pack(len(data)) + data)
        for chunk in document.chunks() if size else ():
            sink.write(chunk[:size])
            await sink.drain()
            size -= len(chunk)
            if size <= 0:
                break

    async def _receive(self) -> dict[str, Any]:
        source = self._process.stdout
        assert source is not None
        try:
            (length,) = _HEAD.unpack(await source.readexactly(_HEAD.size))
            if length > _LONGEST_ANSWER:
                raise ReaderEnded("its reader's answer is too long")
            answer = msgpack.unpackb(await source.readexactly(length))
        except asyncio.IncompleteReadError:
            code = await self._process.wait()
            if code == -signal.SIGXCPU:
                raise TimeoutError from None
            raise ReaderEnded(why_ended(code)) from None
        except ValueError as error:
            raise ReaderEnded(f"its reader's answer is damaged: {error}") from None
        if not isinstance(answer, dict):
            raise ReaderEnded("its reader's answer is none")
        return answer

    async def end(self) -> None:
        """Kill it; nothing if it is dead."""
        with suppress(ProcessLookupError):
            self._process.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()


class Readers:
    """The processes of one worker; its methods are called in one event loop."""

    def __init__(self, limits: ReaderConfig) -> None:
        self.limits = limits
        self._places = asyncio.Semaphore(limits.processes)
        self._idle: list[_Process] = []

    async def read(self, reader: str, document: Document) -> Facts:
        """What the function `reader` ("module:name") finds in a document; raises UnreadableDocument."""
        async with self._places:
            if self._idle:
                with suppress(ReaderEnded):  # what earlier documents left in the process may be to blame
                    return await self._read_in(self._idle.pop(), reader, document)
            try:
                return await self._read_in(await self._started(), reader, document)
            except ReaderEnded as error:
                raise UnreadableDocument(str(error)) from None

    async def _read_in(self, process: _Process, reader: str, document: Document) -> Facts:
        """Raises UnreadableDocument, ReaderEnded."""
        try:
            return await process.ask(reader, document, self.limits)
        except TimeoutError:
            raise UnreadableDocument(f"takes longer than {self.limits.seconds:g} s") from None
        finally:
            if process.is_idle and process.documents < MOST_DOCUMENTS:
                self._idle.append(process)
            else:
                await process.end()

    async def close(self) -> None:
        """End the processes that are idle; the others are ended by those who wait for them."""
        while self._idle:
            await self._idle.pop().end()

    async def _started(self) -> _Process:
        try:
            return await _Process.start(self.limits.memory)
        except (OSError, TimeoutError, ReaderEnded) as error:
            raise UnreadableDocument(f"no process to read it could be started: {error}") from error


def _facts(answer: dict[str, Any]) -> Facts | None:
    """None: the reader says that there are none."""
    if answer.get("last"):
        raise ReaderEnded(str(answer.get("error"))[:1000])
    if "error" in answer:
        return None
    try:
        return unpack(answer["facts"])
    except (KeyError, ValueError, TypeError) as error:
        raise ReaderEnded(f"its reader's answer is none: {error}") from error


def why_ended(code: int) -> str:
    """What a process that ended unasked died of."""
    if code < 0:
        return f"its reader died of {signal.Signals(-code).name}: out of memory, or a fault in a library"
    return f"its reader ended with status {code}"


def environment() -> dict[str, str]:
    """As ours, but a child finds what this process finds, and libraries start no threads or arenas by the core."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MALLOC_ARENA_MAX": "2",
        "OMP_NUM_THREADS": "1",
    }
