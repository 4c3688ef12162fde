"""The types that components of a project see."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, assert_type

from scrapy.http import Response

from webcrawl import (
    Answer,
    BroadSpider,
    Document,
    Facts,
    Link,
    MimePipeline,
    ObjectStore,
    Page,
    Prospect,
    Protocol,
    Reads,
    StoredObject,
    Term,
    URLFilter,
)


class TitleSpider(BroadSpider):
    name = "titles"
    reads = Reads.TREE

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield {"url": response.url}
        yield from super().parse(response, **kwargs)


class TitlePipeline:
    def process_item(self, item: object) -> object:
        if isinstance(item, Page):
            assert_type(item.url, str)
            assert_type(item.status, int | None)
            assert_type(item.title, str | None)
            assert_type(item.text, str | None)
            assert_type(item.main_text, str | None)
            assert_type(item.document, Document | None)
            assert_type(item.row(), dict[str, Any])
        return item


class NotePipeline(MimePipeline):
    types = frozenset({"text/x-note"})
    extensions = {".note": "text/x-note"}
    signatures = {rb"NOTE": "text/x-note"}
    reader = f"{__name__}:read"


def read(document: Document) -> Facts:
    assert_type(document.body, bytes)
    assert_type(document.text, str)
    return Facts(title=document.text[:80], links=[Link(document.url)], details={"lines": 1})


class ShortPaths(URLFilter):
    def apply(self, url: str) -> str | None:
        return url if len(url) < 200 else None


class Slashes(Term):
    why = "Short paths first."

    def weight(self, prospect: Prospect) -> float:
        assert_type(prospect.path, str)
        return -0.1 * prospect.path.count("/")


class NoteHandler(Protocol):
    default_port = 4000

    @asynccontextmanager
    async def fetch(self, url: str, addresses: list[str]) -> AsyncIterator[Answer]:
        async def chunks() -> AsyncIterator[bytes]:
            yield b"NOTE"

        yield Answer(chunks(), peer=addresses[0])


class Dictionary(ObjectStore):
    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._objects: dict[str, bytes] = {}

    def put(self, name: str, data: bytes) -> None:
        self._objects[name] = data

    def put_file(self, name: str, path: Path, interrupted: Callable[[], bool] = lambda: False) -> None:
        self.put(name, path.read_bytes())

    def read(self, name: str, offset: int, length: int) -> bytes:
        return self._objects[name][offset : offset + length]

    def size(self, name: str) -> int | None:
        return len(self._objects[name]) if name in self._objects else None

    def objects(self, prefix: str = "") -> Iterator[StoredObject]:
        for name, data in self._objects.items():
            yield StoredObject(name, len(data))

    def delete(self, name: str) -> None:
        self._objects.pop(name, None)
