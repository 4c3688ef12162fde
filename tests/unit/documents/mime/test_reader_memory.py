"""What a document may take depends on its size, so that a small one cannot fill the memory."""

from __future__ import annotations

import pytest

from tests.cases import cases
from webcrawl.config import ReaderConfig
from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import unpack
from webcrawl.documents.mime.reader_processes import LEAST_MEMORY, MEMORY_RATIO, Readers, allowance
from webcrawl.errors import UnreadableDocument

MIB, GIB = 1 << 20, 1 << 30
TAKE = "tests.unit.documents.mime.stubborn:take"


def document(body: bytes) -> Document:
    return Document(body, "application/pdf", None, "http://site.example/")


@cases(
    ("size", "memory", "most"),
    [
        (1, GIB, LEAST_MEMORY + MEMORY_RATIO),
        (8 * MIB, GIB, LEAST_MEMORY + MEMORY_RATIO * 8 * MIB),
        (100 * MIB, GIB, GIB),
        (0, 4 * GIB, GIB // 2),
        (0, 64 * MIB, 64 * MIB),
    ],
)
def test_allowance(size: int, memory: int, most: int) -> None:
    assert allowance(size, memory) == most


async def test_a_document_takes_no_more_than_its_size_allows() -> None:
    """The process has a GiB, and reads a larger document after one that asked for too much."""
    readers, much = Readers(ReaderConfig(processes=1, seconds=20, memory=GIB)), 2 * LEAST_MEMORY
    try:
        facts = await readers.read(TAKE, document(b"%020d" % (100 * MIB)))
        assert facts.details == {"held": 100 * MIB}
        with pytest.raises(UnreadableDocument, match="takes more memory than allowed"):
            await readers.read(TAKE, document(b"%020d" % much))
        assert (await readers.read(TAKE, document(b"%020d" % much + bytes(5 * MIB)))).details == {
            "held": much
        }
        # those that bound themselves, as the readers of HTML do, have the whole process
        assert (await readers.ask(TAKE, document(b"%020d" % much), unpack)).details == {"held": much}
    finally:
        await readers.close()
