"""Posts a body to a receiver: at an address that the guard allows, without redirects, within a few seconds."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from functools import cached_property
from urllib.parse import SplitResult, urlsplit

from scrapy.settings import BaseSettings

from webcrawl.config import read
from webcrawl.config.program import VERSION
from webcrawl.errors import AddressRefused, NameNotResolved, brief
from webcrawl.hosts.address_guard import AddressGuard
from webcrawl.hosts.dns import Resolver
from webcrawl.service.hooks.webhook import Webhook

SECONDS = 10.0
"""The longest time for an attempt."""
_MOST_HEAD = 64 * 1024
_MOST_HEADS = 5
_PORTS = {"http": 80, "https": 443}
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})(?: |\r\n)")


class WebhookSender:
    """Sends to receivers. One that the settings name may have an inner address, as those of ALLOWED_NETWORKS."""

    def __init__(self, settings: BaseSettings) -> None:
        self._resolver = Resolver(read(settings, "DNS_SERVERS"), timeout=read(settings, "DNS_TIMEOUT"))
        self._guard = AddressGuard(read(settings, "ALLOWED_NETWORKS"))

    async def close(self) -> None:
        """Ends the resolver."""
        await self._resolver.close()

    async def check(self, url: str) -> None:
        """Raises AddressRefused for a receiver whose name has an inner address; a name may have none yet."""
        try:
            await self._addresses(urlsplit(url), is_named=False)
        except NameNotResolved:
            return

    async def send(self, hook: Webhook, event_id: str, body: bytes) -> str:
        """Posts a signed body; returns why the receiver has not accepted it, or ""."""
        try:
            async with asyncio.timeout(SECONDS):
                status = await self._post(hook, event_id, body)
        except TimeoutError:
            return f"no answer within {SECONDS:g} seconds"
        except (AddressRefused, NameNotResolved, OSError, EOFError, ValueError) as error:
            return brief(str(error)) or type(error).__name__
        if 200 <= status < 300:
            return ""
        return f"status {status}" + (": redirects are not followed" if 300 <= status < 400 else "")

    async def _post(self, hook: Webhook, event_id: str, body: bytes) -> int:
        """Returns the status; raises ValueError for an answer that is no HTTP."""
        parts = urlsplit(hook.url)
        addresses = await self._addresses(parts, is_named=hook.is_named)
        context = self._context if parts.scheme == "https" else None
        reader, writer = await asyncio.open_connection(
            addresses[0],
            parts.port or _PORTS[parts.scheme],
            ssl=context,
            server_hostname=parts.hostname if context else None,
            limit=_MOST_HEAD,
        )
        try:
            writer.write(_request(parts, hook.headers(event_id, int(time.time()), body), body))
            await writer.drain()
            return await _status(reader)
        finally:
            writer.close()

    async def _addresses(self, parts: SplitResult, *, is_named: bool) -> tuple[str, ...]:
        """Returns the addresses of a receiver; raises AddressRefused if one of them is not allowed."""
        hostname = parts.hostname or ""
        # the resolver knows an IPv6 address by its brackets
        resolved = await self._resolver.resolve(f"[{hostname}]" if ":" in hostname else hostname)
        if not is_named:
            port = parts.port or _PORTS[parts.scheme]
            self._guard.check_all(resolved.addresses, hostname=hostname, port=port)
        return resolved.addresses

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context()


def _request(parts: SplitResult, headers: dict[str, str], body: bytes) -> bytes:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fields = {
        "Host": parts.netloc,
        "User-Agent": f"webcrawl/{VERSION}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **headers,
    }
    lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode("ascii") + body


async def _status(reader: asyncio.StreamReader) -> int:
    for _ in range(_MOST_HEADS):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise ValueError("the head of the answer is too long") from None
        except asyncio.IncompleteReadError:
            raise ValueError("the connection ended before the answer") from None
        if (match := _STATUS_LINE.match(head)) is None:
            raise ValueError("the answer is no HTTP")
        if (status := int(match[1])) >= 200:
            return status
    raise ValueError("there is no answer after several interim ones")
