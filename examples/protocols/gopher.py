"""Gopher (RFC 1436): the client sends a selector, the server sends the document and closes the connection."""

from __future__ import annotations

import asyncio
import html
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote, unquote_to_bytes, urlsplit

from webcrawl import Answer, Protocol

_MENUS = (b"", b"1", b"7")


class GopherDownloadHandler(Protocol):
    """Converts menus to pages of links, and passes on other documents unchanged."""

    default_port = 70

    @asynccontextmanager
    async def fetch(self, url: str, addresses: list[str]) -> AsyncIterator[Answer]:
        parts = urlsplit(url)
        path = unquote_to_bytes(f"{parts.path}?{parts.query}" if parts.query else parts.path)[1:]
        kind, selector = path[:1], path[1:]
        reader, writer = await asyncio.open_connection(addresses[0], parts.port or self.default_port)
        try:
            writer.write(selector.partition(b"\n")[0] + b"\r\n")
            if kind in _MENUS:
                page = _page(await reader.read(1_000_000))
                yield Answer(_once(page), headers={"Content-Type": "text/html"}, peer=addresses[0])
            else:
                yield Answer(_chunks(reader), peer=addresses[0])
        finally:
            writer.close()


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while chunk := await reader.read(65_536):
        yield chunk


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _page(menu: bytes) -> bytes:
    links = []
    for line in menu.decode("utf-8", "replace").splitlines():
        words = line.split("\t")
        if len(words) >= 4 and line[:1] not in "i3":
            url = f"gopher://{words[2]}:{words[3]}/{line[0]}{quote(words[1])}"
            links.append(f'<li><a href="{html.escape(url)}">{html.escape(words[0][1:])}</a>')
    return "\n".join(["<!DOCTYPE html>", '<meta charset="utf-8">', *links]).encode()
