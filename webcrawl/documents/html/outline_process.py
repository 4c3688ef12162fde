"""Parses HTML in a process of its own, so that the worker keeps fetching and survives crashes of the parser.

Pages are sent without waiting for earlier ones and answered in order. The process starts with the first page. When it
dies, the page that it was reading is sent once more to a new process, because earlier pages may have damaged the old
one; the second death refuses the page. A page that takes too long, or kills a process that has read no other page, is
refused at once. A large page that would hold up other pages is read elsewhere; see `large_outline`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import msgpack
from cachetools import FIFOCache

from webcrawl.config import ReaderConfig
from webcrawl.documents import child_process
from webcrawl.documents.child_process import PATIENCE, ChildProcess
from webcrawl.documents.document import Document
from webcrawl.documents.html import large_outline
from webcrawl.documents.html.outline import Outline, unpack
from webcrawl.documents.html.timed_parse import BYTES
from webcrawl.documents.mime.reader_processes import Readers
from webcrawl.errors import UnreadableDocument

logger = logging.getLogger(__name__)

CHILD = "webcrawl.documents.html.outline_child"
MAX_WAITING_BYTES = 16 * 1024 * 1024
"""Fetching pauses while the waiting pages are larger than this in all."""
NEW_HOSTS_BYTES = MAX_WAITING_BYTES // 4
"""Hosts of which no page was read wait while the waiting pages are larger than this in all."""
OWN_BYTES = 64 * 1024
"""The most bytes of waiting pages of a known host that is asked for further pages meanwhile."""
_WOKEN = 8
_HOSTS_REMEMBERED = 10_000
_MAX_DEATHS = 2
_RESTART_PAUSES = (0.5, 2.0, 8.0)
"""Seconds between attempts to start the process again: a system may be short of memory for a while."""
_CHECKS = 5
"""Checks of a page within the time limit. It is late only after all of them, whatever delays the worker."""


@dataclass(eq=False, slots=True)
class _Question:
    """A page that waits for its outline. The answer is None without a process.

    message   the parts of the message: the body is one of its own, so that a page that waits is not copied
    is_large  the page must leave the process after large_outline.SECONDS, or when the process dies
    sent_to   the process that the page was sent to last
    began     the processor time of the process when it came to this page, if it is large
    deaths    why processes ended while they read the page
    """

    document: Document
    message: tuple[bytes, bytes]
    answer: asyncio.Future[Outline | None]
    is_large: bool = False
    sent_to: ChildProcess | None = None
    began: float | None = None
    deaths: list[str] = field(default_factory=list)

    def refuse(self, why: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(UnreadableDocument(why))

    def resolve(self, outline: Outline | None) -> None:
        if not self.answer.done():
            self.answer.set_result(outline)


class KnownHosts:
    """Which hosts may be asked for a page while many pages wait to be read.

    They are those of which a page was read, and of which at most OWN_BYTES wait. Others wait, in the order in which
    they came: hundreds of new hosts, each with a page that takes long, then hold up no known host.
    """

    def __init__(self) -> None:
        self._read: FIFOCache[str, bool] = FIFOCache(_HOSTS_REMEMBERED)
        self._being_read = Counter[str]()
        """Bytes of the waiting pages by host."""
        self._bytes = 0
        self._waiting: dict[asyncio.Future[None], str] = {}
        """The hosts that wait."""

    def has_room(self, host: str) -> bool:
        """Returns whether a host may be asked for a page now."""
        return self._bytes <= NEW_HOSTS_BYTES or (host in self._read and self._being_read[host] <= OWN_BYTES)

    async def room(self, host: str) -> None:
        """Waits until a host may be asked for a page."""
        while not self.has_room(host):
            self._waiting[woken := asyncio.get_running_loop().create_future()] = host
            try:
                await woken
            finally:
                self._waiting.pop(woken, None)

    @contextmanager
    def reading(self, host: str, size: int) -> Iterator[None]:
        """Counts a page of so many bytes that waits or is read."""
        self._being_read[host] += size
        self._bytes += size
        try:
            yield
        finally:
            self._bytes -= size
            self._being_read[host] -= size
            if not self._being_read[host]:
                del self._being_read[host]
            self.note(host)
            self._wake(host)

    def note(self, host: str) -> None:
        """Notes that a page of a host was read."""
        self._read[host] = True

    def _wake(self, known: str) -> None:
        """Wakes some hosts that wait, or all when no page does; and the host of which a page was read."""
        number = len(self._waiting) if not self._bytes else _WOKEN * (self._bytes <= NEW_HOSTS_BYTES)
        woken = [
            *islice(self._waiting, number),
            *(wait for wait, host in self._waiting.items() if host == known),
        ]
        for wait in woken:
            if self._waiting.pop(wait, None) is not None and not wait.done():
                wait.set_result(None)


class Outlines:
    """The process of one worker and the pages that wait for it; its methods are called in one event loop."""

    def __init__(
        self,
        limits: ReaderConfig,
        readers: Readers | None = None,
        *,
        text_links: bool = False,
        link_rows: bool = False,
        markdown: bool = False,
        page_markdown: bool = False,
        shares: bool = False,
        whole_text: bool = False,
        structured: bool = False,
    ) -> None:
        """`readers` make the outlines of slow large pages, and charge sites for all pages.

        `text_links`, `link_rows`, `markdown`, `page_markdown`, `shares`, `whole_text`, `structured`: see
        `make_outline`.
        """
        self._limits = limits
        self._always = {
            "text_links": text_links,
            "link_rows": link_rows,
            "markdown": markdown,
            "page_markdown": page_markdown,
            "shares": shares,
            "structured": structured,
        }
        self._whole_text = whole_text
        self._readers = readers
        self._allowance = large_outline.Allowance()
        self._charge = readers.charge if readers is not None else None
        self._waiting: deque[_Question] = deque()
        self._process: ChildProcess | None = None
        self._serving: asyncio.Task[None] | None = None
        self.bytes = 0
        """The size of the pages that wait."""
        self.hosts = KnownHosts()
        self._has_given_up = False
        self._has_started = False

    async def read(
        self, document: Document, *, facts: bool, simhash: bool, texts: bool = False, extract: str = ""
    ) -> Outline | None:
        """Returns the outline of an HTML document, see `make_outline`; None when there is no process.

        Raises UnreadableDocument, and OSError when the body cannot be read.
        """
        wanted = {"facts": facts, "simhash": simhash, "texts": texts, "extract": extract, **self._always}
        if self._readers is None or len(document) <= BYTES:
            return await self._ask(document, _message(document, wanted | {"whole_text": self._whole_text}))
        with self._readers.aside(document):
            links = self._readers.large_links
            async with links.room(links.page(len(document), large_outline.elements_of(document))):
                outline = await self._read_large(document, wanted, self._readers)
                return links.hold(outline, len(outline.links.links))

    async def _read_large(self, document: Document, wanted: dict[str, Any], readers: Readers) -> Outline:
        """Reads a large page in the process of all other pages, or else in a reader process."""
        if len(document) <= large_outline.MOST_SHARED_BYTES:
            outline = await self._read_shared(document, wanted)
            if outline is not None:
                return outline
        unpacked = partial(unpack, document=document)
        return await readers.ask(large_outline.READER, document, unpacked, arguments=wanted)

    async def _read_shared(self, document: Document, wanted: dict[str, Any]) -> Outline | None:
        """Reads a large page in the process of all other pages; returns None if it must be read elsewhere."""
        async with self._allowance.turn:
            if not self._allowance.is_enough():
                return None
            return await self._ask(document, _message(document, wanted | {"whole_text": True}), is_large=True)

    async def _ask(
        self, document: Document, message: tuple[bytes, bytes], *, is_large: bool = False
    ) -> Outline | None:
        """Returns the outline, or None without a process or for a large page that takes too long."""
        if self._has_given_up:
            return None
        answer: asyncio.Future[Outline | None] = asyncio.get_running_loop().create_future()
        question = _Question(document, message, answer, is_large)
        size = sum(map(len, message))
        self.bytes += size
        try:
            self._waiting.append(question)
            if self._process is not None:
                _send(question, self._process)
                self._time_first()
            elif self._serving is None:
                self._serving = asyncio.create_task(self._serve())
            return await answer
        finally:
            self.bytes -= size

    async def close(self) -> None:
        """Ends the process; pages that wait have no outline."""
        self._has_given_up = True
        if self._serving is not None:
            self._serving.cancel()
            with suppress(asyncio.CancelledError):
                await self._serving
        self._give_up()

    async def _serve(self) -> None:
        """Keeps a process running while there are pages."""
        try:
            while self._waiting:
                process = await self._start()
                try:
                    self._process = process
                    for question in list(self._waiting):
                        _send(question, process)
                    self._time_first()
                    is_late = await self._watch(process)
                finally:
                    self._process = None
                    why = await process.end()
                self._blame(process, why, is_late)
        except (OSError, TimeoutError, UnreadableDocument) as error:
            logger.warning("Cannot start a process for HTML; it is parsed in the worker: %s", error)
            self._give_up()
        except Exception:
            logger.exception("The process for HTML failed; HTML is parsed in the worker")
            self._give_up()
        finally:
            self._serving = None

    async def _start(self) -> ChildProcess:
        """Starts a process. The first process of a crawl must start at once, later ones are tried again."""
        for pause in _RESTART_PAUSES if self._has_started else ():
            with suppress(OSError, TimeoutError, UnreadableDocument):
                return await ChildProcess.start(CHILD, self._limits.memory, self._receive)
            await asyncio.sleep(pause)
        process = await ChildProcess.start(CHILD, self._limits.memory, self._receive)
        self._has_started = True
        return process

    def _receive(self, answer: bytes | bytearray) -> bool:
        """Gives an answer to the page that waits longest; returns whether it is valid."""
        if not self._waiting:
            return False
        question = self._waiting[0]
        outline: Outline | UnreadableDocument
        try:
            outline = unpack(answer, question.document)
        except UnreadableDocument as error:
            outline = error
        except ValueError:
            return False
        self._waiting.popleft()
        if question.began is not None and self._process is not None:
            self._allowance.spend(self._process.cpu_seconds() - question.began)
        self._time_first()
        if self._charge is not None and question.sent_to is not None:
            self._charge(question.document.url, question.sent_to.seconds)
        if isinstance(outline, Outline):
            question.resolve(outline)
        else:
            question.refuse(str(outline))
        return True

    def _time_first(self) -> None:
        """Begins to count the time of a large page that the process reads now."""
        first = self._waiting[0] if self._waiting else None
        if first is not None and first.is_large and first.began is None and self._process is not None:
            first.began = self._process.cpu_seconds()
            self._check_later(first)

    def _check_later(self, question: _Question) -> None:
        seconds = large_outline.SECONDS / _CHECKS
        asyncio.get_running_loop().call_later(seconds, self._check, question)

    def _check(self, question: _Question) -> None:
        """Ends the process if it still reads a large page after SECONDS of processor time."""
        first = self._waiting[0] if self._waiting else None
        process = self._process
        if (
            question is not first
            or question.began is None
            or process is None
            or question.sent_to is not process
        ):
            return
        if process.cpu_seconds() - question.began < large_outline.SECONDS:
            self._check_later(question)
        else:
            process.kill("holds up other pages")

    async def _watch(self, process: ChildProcess) -> bool:
        """Waits for the end of a process; kills it, and returns True, when a page takes too long."""
        first, checks, before, every = None, 0, 0.0, self._limits.seconds / _CHECKS
        while not process.ended.done():
            await asyncio.wait([process.ended], timeout=every)
            previous, first = first, self._waiting[0] if self._waiting else None
            checks = checks + 1 if first is not None and first is previous else 0
            if not checks:
                before = process.waited_seconds()
            # a process that waits for a processor does not read
            elif checks >= min(_CHECKS + (process.waited_seconds() - before) / every, PATIENCE * _CHECKS):
                process.kill(f"takes longer than {self._limits.seconds:g} s")
                return True
        return False

    def _blame(self, process: ChildProcess, why: str, is_late: bool) -> None:
        """Counts the death of a process against the page that it was reading, and may refuse that page."""
        first = self._waiting[0] if self._waiting else None
        if first is None or first.sent_to is not process:
            logger.warning("The process for HTML ended between pages, with status %s", process.exit_code)
            return
        if first.is_large:  # a reader process decides
            self._allowance.spend(0.0, restart=True)
            if self._charge is not None:
                self._charge(first.document.url, large_outline.SECONDS)
            self._waiting.popleft().resolve(None)
            return
        logger.warning("%s %s", first.document.url, why)
        first.deaths.append(why)
        if self._charge is not None and is_late:
            self._charge(first.document.url, self._limits.seconds)
        is_certain = is_late or not (process.answers or process.was_killed)
        if is_certain or len(first.deaths) >= _MAX_DEATHS:
            self._waiting.popleft().refuse(why)

    def _give_up(self) -> None:
        """Leaves pages to the worker, and refuses pages that killed a process."""
        self._has_given_up = True
        while self._waiting:
            question = self._waiting.popleft()
            if question.deaths:
                question.refuse(question.deaths[-1])
            else:
                question.resolve(None)


def _message(page: Document, wanted: dict[str, Any]) -> tuple[bytes, bytes]:
    """Returns the question of a page, and its body; `wanted`: the keyword arguments of `make_outline`."""
    question, body = msgpack.packb((page.charset, page.mime_type, page.url, wanted)), page.body
    return child_process.question(question, len(body)), body


def _send(question: _Question, process: ChildProcess) -> None:
    """Sends a page, unless the process has ended: then the next process gets it."""
    if process.write(*question.message):
        question.sent_to = process
