"""The process that reads what strangers wrote, `python -m webcrawl.documents.mime.reader_child MEMORY`: it can
be lost at any moment.

On standard input and output: messages of four bytes of length (big-endian) and MessagePack. First it says that it is
ready, and whether it can open bodies that its parent has in files. Then each question, {reader, seconds, mime_type,
charset, url, path, size}, has one answer: {"facts": bytes} or {"error": text, "last": whether the process ends now}.
Where `path` is None, `size` bytes of the body come after the question.

It ends with its parent, may neither grow beyond MEMORY bytes, nor write a file, start a program or use the network.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, BinaryIO

import msgpack

from webcrawl.documents.body import Body
from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import pack
from webcrawl.documents.mime.reader import call
from webcrawl.errors import ResourcesExhausted, UnreadableDocument

_FORBIDDEN = (
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
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000


def main() -> None:
    """Answer until there is nobody to ask."""
    source, sink = streams()
    shut_in(int(sys.argv[1]))
    _send(sink, {"opens": _opens_files_of_parent()})
    while (question := _receive(source)) is not None:
        answer = answer_to(question, source)
        _send(sink, answer)
        if answer.get("last"):
            return


def streams() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output; what a library prints, which must not be taken for an answer, goes elsewhere."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return source, sink


def shut_in(memory: int) -> None:
    """See the module; what a system does not have is done without."""
    # what a terminal or a service manager sends to all is for the crawl, which ends in good order
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parent = os.getppid()
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        # where users may have networks of their own: one without any interface
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


def answer_to(question: Mapping[str, Any], source: BinaryIO) -> dict[str, Any]:
    """The facts of one document, or why there are none."""
    try:
        _bound_seconds(question["seconds"])
        path = question["path"]
        body = source.read(question["size"]) if path is None else Body.at(path)
        document = Document(body, question["mime_type"], question["charset"], question["url"])
        return {"facts": pack(call(question["reader"], document))}
    except UnreadableDocument as error:
        return {"error": str(error), "last": isinstance(error, ResourcesExhausted)}
    except MemoryError:
        return {"error": "takes more memory than it may", "last": True}
    except OSError as error:
        return {"error": f"cannot be opened: {error}", "last": True}


def _opens_files_of_parent() -> bool:
    """Who has a user namespace of its own may not look into a process outside of it."""
    try:
        os.stat(f"/proc/{os.getppid()}/fd/0")
    except OSError:
        return False
    return True


def _bound_seconds(seconds: float) -> None:
    """The parent counts too; but it may be held up, and not notice."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime + seconds) + 2
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event.startswith(_FORBIDDEN):
        raise PermissionError(f"{event} is forbidden here")


def _receive(source: BinaryIO) -> Any:
    head = source.read(4)
    if len(head) < 4:
        return None
    data = source.read(struct.unpack(">I", head)[0])
    return msgpack.unpackb(data)


def _send(sink: BinaryIO, message: Mapping[str, Any]) -> None:
    data = msgpack.packb(message)
    sink.write(struct.pack(">I", len(data)) + data)
    sink.flush()


if __name__ == "__main__":
    main()
