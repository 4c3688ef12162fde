"""A child process that reads documents, seen from inside, and its messages; `child_process` is the parent's side.

The child ends with its parent. It has at most MEMORY bytes of address space, and cannot write files, start programs or
use the network. The messages go over one socket:

    parent -> child   two lengths of four bytes (big-endian), a question in MessagePack, the body of a document
    child -> parent   a length of four bytes, the processor seconds that the answer took (a float of four bytes),
                      the answer; the answers come in the order of the questions

The first answer is `READY` or `READY_WITH_FILES`. It belongs to no question.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgpack

QUESTION_HEAD = struct.Struct(">II")
ANSWER_HEAD = struct.Struct(">If")
READY, READY_WITH_FILES = b"\0", b"\1"
"""The child is ready. After READY_WITH_FILES, the parent may send the path of a body instead of its bytes."""
OUT_OF_MEMORY_STATUS = 77

_FORBIDDEN_EVENTS = (
    "socket.",
    "subprocess.",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.system",
    "ftplib.",
    "urllib.",
)
_PR_SET_PDEATHSIG = 1
_LONG_SECONDS = 0.05
"""After a document that takes this much processor time, free memory is returned to the system."""
_LARGE_BYTES = 1024 * 1024
"""Before and after a document of this size, free memory is returned too: its tree takes 15 times as much."""
_GIVE_BACK_SECONDS = 0.2
"""Between other documents, free memory is returned after so much processor time, in 0.5 ms: 10 of 60 MB."""
_STATM = Path("/proc/self/statm")
"""The first number is the size of the address space in pages. Systems without this file (macOS) set no limit."""
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000


class Sandbox:
    """Restricts this process. Create it before any part of a document is read."""

    def __init__(self) -> None:
        self._source = sys.stdin.buffer
        self._sink: BinaryIO = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)  # the output of libraries must not mix with answers
        _confine(int(sys.argv[1]))

    def serve(self, answer: Callable[[Any, bytes], bytes]) -> None:
        """Answers questions until the parent closes the socket.

        `answer` gets an unpacked question and a body. A MemoryError ends the process, because the next document would
        lack memory too.
        """
        self._send(READY_WITH_FILES if _opens_files_of_parent() else READY)
        read, given_back = self._source.read, time.process_time()
        while len(head := read(QUESTION_HEAD.size)) == QUESTION_HEAD.size:
            length, size = QUESTION_HEAD.unpack(head)
            try:
                if size >= _LARGE_BYTES or time.process_time() - given_back >= _GIVE_BACK_SECONDS:
                    give_back_memory()
                    given_back = time.process_time()
                packed, body = read(length), read(size)
                began = time.process_time()
                answered = answer(msgpack.unpackb(packed), body)
                seconds = time.process_time() - began
                self._send(answered, seconds)
            except MemoryError:
                sys.exit(OUT_OF_MEMORY_STATUS)
            if seconds >= _LONG_SECONDS or size >= _LARGE_BYTES:
                packed = body = answered = b""
                give_back_memory()
                given_back = time.process_time()

    def _send(self, answer: bytes, seconds: float = 0.0) -> None:
        self._sink.write(ANSWER_HEAD.pack(len(answer), seconds))
        self._sink.write(answer)
        self._sink.flush()


def bound_cpu_seconds(seconds: float) -> None:
    """Ends this process (SIGXCPU) after `seconds` more of processor time, and two seconds of grace.

    The parent has a time limit too, but a busy parent may notice it late.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime + seconds) + 2
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def bound_memory(more: int | None) -> None:
    """Limits the address space to `more` bytes than now, and at most MEMORY; None sets the limit MEMORY."""
    with suppress(OSError, ValueError):
        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = most
        if more is not None and most != resource.RLIM_INFINITY:
            limit = min(most, more + int(_STATM.read_text().split()[0]) * resource.getpagesize())
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def give_back_memory() -> None:
    """Returns free memory to the system. Without this call, the C library keeps the memory that a document used."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _confine(memory: int) -> None:
    """Applies every restriction that this system offers."""
    # a terminal or a service manager signals all processes; only the crawl reacts, and ends its children
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parent = os.getppid()
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        # a network namespace without any interface, where users may create one
        if libc.unshare(_NEW_NETWORK) != 0:
            libc.unshare(_NEW_USER | _NEW_NETWORK)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit()
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_AS: memory}
    for limit, most in limits.items():
        with suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event.startswith(_FORBIDDEN_EVENTS):
        raise PermissionError(f"{event} is forbidden here")


def _opens_files_of_parent() -> bool:
    """Returns whether this process can open files of its parent. It cannot from its own user namespace."""
    try:
        os.stat(f"/proc/{os.getppid()}/fd/0")
    except OSError:
        return False
    return True
