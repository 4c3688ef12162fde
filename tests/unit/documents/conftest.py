"""Fixtures: documents are read in a separate process, as in crawls."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator

import pytest

from webcrawl.config import ReaderConfig
from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts
from webcrawl.documents.mime.reader_processes import Readers

MEMORY = 1024 * 1024 * 1024
BASE = "http://site.example/folder/file"

Read = Callable[..., Facts]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs tests that are coroutine functions."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), 60))
    return True


@pytest.fixture(scope="module")
def read() -> Iterator[Read]:
    """`read("webcrawl.documents.mime.pdf:read", body, "application/pdf")`: facts or UnreadableDocument."""
    with asyncio.Runner() as runner:
        readers = Readers(ReaderConfig(processes=1, seconds=20, memory=MEMORY))

        def read(reader: str, body: bytes, mime_type: str, *, url: str = BASE) -> Facts:
            document = Document(body, mime_type, None, url)
            return runner.run(readers.read(reader, document))

        yield read
        runner.run(readers.close())
