"""Truncated and altered documents of every type are read in part or refused, without breaking the reader."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from tests.cases import cases
from tests.documents import MORE_SAMPLES, SAMPLES
from webcrawl.documents.mime.facts import Facts
from webcrawl.errors import UnreadableDocument

Read = Callable[..., Facts]
EXAMPLES = 15
# phrases of errors about a reader that died, hung or sent an invalid answer
READER_FAILURES = ("its reader", "longer", "more memory", "more time", "no process")


ALL = [
    pytest.param(name, *sample, id=f"{name} {sample[0]}")
    for name, one in SAMPLES.items()
    for sample in [one, *MORE_SAMPLES.get(name, [])]
]


@cases(("name", "mime_type", "body"), ALL)
def test_valid_document_has_facts(name: str, mime_type: str, body: bytes, read: Read) -> None:
    facts = read(f"webcrawl.documents.mime.{name}:read", body, mime_type)
    assert facts.details
    assert "broken" not in facts.details


@cases(("name", "mime_type", "body"), ALL)
def test_damaged_document_is_read_or_refused(name: str, mime_type: str, body: bytes, read: Read) -> None:
    @settings(max_examples=EXAMPLES, database=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        damaged = bytearray(body)
        for place in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=8)):
            damaged[place] = data.draw(st.integers(0, 255))
        length = data.draw(st.one_of(st.just(len(body)), st.integers(0, len(body))))
        try:
            read(f"webcrawl.documents.mime.{name}:read", bytes(damaged[:length]), mime_type)
        except UnreadableDocument as error:
            assert not any(word in str(error) for word in READER_FAILURES), str(error)

    check()
