"""Readers that misbehave as libraries do with broken documents."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts, Link
from webcrawl.errors import UnreadableDocument


def title(document: Document) -> Facts:
    return Facts(title=document.text, details={"pid": os.getpid()})


_used = False


def fail_if_used(document: Document) -> Facts:
    """Fails with MemoryError from the second call in a process on."""
    global _used
    if _used:
        raise MemoryError
    _used = True
    return Facts(title="new")


def measure(document: Document) -> Facts:
    with document.open() as stream:
        end = stream.seek(0, 2)
    start = document.start(4).decode()
    return Facts(
        title=start, details={"size": len(document), "end": end, "in_file": document.path is not None}
    )


def hang(document: Document) -> Facts:
    time.sleep(600)
    return Facts()


def work(document: Document) -> Facts:
    """Uses the processor for 0.2 seconds."""
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    return Facts()


def spin(document: Document) -> Facts:
    while True:
        pass


def grow(document: Document) -> Facts:
    held = []
    while True:
        held.append(bytes(16_000_000))


def crash(document: Document) -> Facts:
    ctypes.string_at(0)
    return Facts()


def leave(document: Document) -> Facts:
    os._exit(3)


def recurse(document: Document) -> Facts:
    return recurse(document)


def raise_odd(document: Document) -> Facts:
    raise KeyError("/Root")


def refuse(document: Document) -> Facts:
    raise UnreadableDocument("is of another century")


def chatter(document: Document) -> Facts:
    print("a library's word on standard output")
    os.write(1, b"and another one")
    sys.stderr.write("x" * 200_000)
    return Facts(title="quiet")


def endless(document: Document) -> Facts:
    many = [Link(f"http://x.example/{number}") for number in range(70_000)]
    details = {str(number): {"deep": [[[[[[[[1]]]]]]]], "text": "y" * 5_000} for number in range(2_000)}
    return Facts(title="t" * 9_000, text="word " * 1_000_000, links=many, details=details)


def odd_values(document: Document) -> Facts:
    details = {
        "nan": float("nan"),
        "huge": 10**40,
        "nul": "a\0b",
        "half": "\ud800",
        "bytes": b"x",
        7: None,
        "": 1,
    }
    return Facts(title="a\0b\ud800c", author=b"bytes", details=details)  # type: ignore[arg-type]


def break_out(document: Document) -> Facts:
    """Tries forbidden actions and returns those that succeeded."""
    done = []
    address, file = document.text.split()

    def connect() -> None:
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), 2)

    tries = {
        "connect": connect,
        "resolve": lambda: socket.getaddrinfo("localhost", 80),
        "program": lambda: subprocess.run(["true"], check=True),
        "shell": lambda: os.system("true"),
        "write": lambda: Path(file).write_text("x" * 100),
    }
    for name, attempt in tries.items():
        try:
            attempt()
            done.append(name)
        except (OSError, RuntimeError):
            pass
    return Facts(details={"done": done})


_kept: list[bytes] = []


def fill(document: Document) -> Facts:
    """Uses 100 MB and 0.2 seconds of the processor; the C library keeps the memory, because its end is in use."""
    many = [bytes(2_000) for _ in range(50_000)]
    _kept.append(bytes(2_000))
    work(document)
    return Facts(title=str(len(many)), details={"pid": os.getpid()})


def take(document: Document) -> Facts:
    """Takes so many bytes as the document says first."""
    held = bytearray(int(document.start(20)))
    return Facts(details={"held": len(held)})
