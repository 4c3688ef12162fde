"""The process that parses HTML for a worker, `python -m webcrawl.documents.html.outline_child MEMORY`; any
page may be its last.

On standard input come pages: two lengths of four bytes each (big-endian), a question in MessagePack, [charset,
mime_type, url, facts, simhash], where the last two say whether these are wanted, and the body. On standard output, in
the same order: a length of four bytes and what `webcrawl.documents.html.outline.pack` makes of the page. The
first answer, which
nobody asked for, is empty: it is ready.

It is shut in as `webcrawl.documents.mime.reader_child` is, and ends with its parent, or where a page takes
more memory than it may.
"""

from __future__ import annotations

import gc
import struct
import sys
from typing import BinaryIO

import msgpack

from webcrawl.documents.document import Document
from webcrawl.documents.html.outline import outlined, pack, pack_error
from webcrawl.documents.mime.reader_child import shut_in, streams

HEAD = struct.Struct(">II")
LENGTH = struct.Struct(">I")
TOO_MUCH, TOO_MUCH_STATUS = "takes more memory than it may", 77


def main() -> None:
    """Answer until there is nobody to ask."""
    source, sink = streams()
    shut_in(int(sys.argv[1]))
    from webcrawl.documents import markup_bounds  # noqa: F401  (the first large page would wait for NumPy)

    # a page makes thousands of objects and no cycles
    gc.freeze()
    gc.set_threshold(100_000, 1, 1)
    _send(sink, b"")
    while len(head := source.read(HEAD.size)) == HEAD.size:
        length, size = HEAD.unpack(head)
        question, body = source.read(length), source.read(size)
        try:
            _send(sink, _answer(question, body))
        except MemoryError:
            sys.exit(TOO_MUCH_STATUS)


def _answer(question: bytes, body: bytes) -> bytes:
    charset, mime_type, url, facts, simhash = msgpack.unpackb(question)
    document = Document(body, mime_type, charset, url)
    try:
        return pack(outlined(document, facts=facts, simhash=simhash))
    except MemoryError:
        raise
    except Exception as error:  # a fault of ours, which is to cost no more than this page
        return pack_error(f"{type(error).__name__}: {error}"[:500])


def _send(sink: BinaryIO, answer: bytes) -> None:
    sink.write(LENGTH.pack(len(answer)) + answer)
    sink.flush()


if __name__ == "__main__":
    main()
