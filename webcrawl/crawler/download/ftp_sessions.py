"""FTP sessions that are kept for the next URL of their server: a crawl fetches the URLs of a host in turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from webcrawl.crawler.download.ftp_client import FAILURES, FTPClient, message_of
from webcrawl.errors import BrokenTransfer
from webcrawl.hosts.dns import to_try

_MAX_KEPT = 16
_KEPT_SECONDS = 30.0


class FTPSessions:
    """Keeps up to 16 sessions, one for each address and port, for 30 seconds."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], tuple[FTPClient, asyncio.TimerHandle]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def borrow(self, addresses: list[str], port: int) -> AsyncIterator[FTPClient]:
        """Lends a session at one of the addresses: a kept one, or a new connection that is not logged in."""
        client = await self._resumed(addresses, port) or await _connected(addresses, port)
        client.idle = False
        try:
            yield client
        finally:
            if client.idle and client.home is not None:
                self._keep(client, port)
            else:
                await client.leave()

    async def close(self) -> None:
        """Ends all kept sessions."""
        for server in list(self._kept):
            self._end(server)
        if self._leaving:
            await asyncio.wait(self._leaving)

    async def _resumed(self, addresses: list[str], port: int) -> FTPClient | None:
        for server in [(address, port) for address in addresses]:
            if server in self._kept:
                client = self._take(server)
                try:
                    await client.resume()
                except (*FAILURES, BrokenTransfer, OSError, EOFError):
                    await client.leave()
                except asyncio.CancelledError:
                    await client.leave()
                    raise
                else:
                    return client
        return None

    def _keep(self, client: FTPClient, port: int) -> None:
        client.close_data()
        server = client.peer, port
        if server in self._kept:
            self._end(server)
        elif len(self._kept) == _MAX_KEPT:
            self._end(next(iter(self._kept)))
        timer = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._end, server)
        self._kept[server] = client, timer

    def _take(self, server: tuple[str, int]) -> FTPClient:
        client, timer = self._kept.pop(server)
        timer.cancel()
        return client

    def _end(self, server: tuple[str, int]) -> None:
        leaving = asyncio.ensure_future(self._take(server).leave())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)


async def _connected(addresses: list[str], port: int) -> FTPClient:
    """Returns a client at the first address that accepts the connection."""
    client, addresses = FTPClient(), to_try(addresses)
    for address in addresses:
        try:
            await client.connect(address, port)
            return client
        except FAILURES as error:
            await client.leave()
            raise BrokenTransfer(message_of(error)) from error
        except asyncio.CancelledError:
            await client.leave()
            raise
        except OSError:
            if address == addresses[-1]:
                raise
    raise BrokenTransfer("the host has no address")
