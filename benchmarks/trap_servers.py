"""Serves the web of the benchmark of traps on loopback, with its nameserver, and logs each request.

    python -m benchmarks.trap_servers --port 18490 --names 18491 --log FILE --pages 20000

A line of the log is a request: time (monotonic), host with port, path, and status. Only this process knows which pages
exist: their paths have words of the documentation, which may be edited during a crawl.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TextIO, cast

import uvloop

from benchmarks.generated_web import Names, answer, listening
from benchmarks.trap_web import HOSTS, OUTWARD, TRAPS, TrapWeb, prose

RULES = b"User-agent: *\nDisallow: /never\n"


class Connection(asyncio.Protocol):
    """One client's connection: requests without bodies, one after another."""

    def __init__(self, web: TrapWeb, log: TextIO) -> None:
        self._web = web
        self._log = log
        self._time = asyncio.get_running_loop().time
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode("latin-1")
            authority = head.partition(b"\r\nHost: ")[2].partition(b"\r\n")[0].decode("latin-1")
            status, body, kind = self._answer(authority.partition(":")[0], path)
            self._log.write(f"{self._time()} {authority} {path} {status[:3]}\n")
            self._transport.write(answer(status, body, kind))

    def _answer(self, host: str, path: str) -> tuple[str, bytes, str]:
        """Returns status, body and content type."""
        if path == "/robots.txt":
            return "200 OK", RULES, "text/plain"
        page = self._web.page(host, path)
        if page is None:
            return "404 Not Found", b"There is no such page", "text/html"
        return "200 OK", page.encode(), "text/html; charset=utf-8"


async def serve(web: TrapWeb, names: int, file: Path) -> None:
    loop = asyncio.get_running_loop()
    prose()
    with file.open("w", buffering=1) as log:
        server = await loop.create_server(lambda: Connection(web, log), sock=listening(web.port))
        await loop.create_datagram_endpoint(lambda: Names(web.address), local_addr=("127.0.0.1", names))
        print("ready", flush=True)
        await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--names", type=int, required=True, help="the port of the nameserver")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument(
        "--pages", type=int, default=20_000, help="of the crawl; sizes of sites follow from it"
    )
    parser.add_argument("--hosts", type=int, default=HOSTS, help="number of honest hosts")
    parser.add_argument("--honest", type=int, default=0, help="pages of all honest hosts, 0: as --pages says")
    parser.add_argument("--traps", nargs="*", default=list(TRAPS), help="those that honest pages link to")
    parser.add_argument(
        "--outward",
        type=float,
        default=OUTWARD,
        help="share of honest pages with a link to another honest site",
    )
    said = parser.parse_args()
    web = TrapWeb(
        said.port,
        said.pages,
        hosts=said.hosts,
        honest=said.honest,
        traps=said.traps,
        outward=said.outward,
    )
    uvloop.run(serve(web, said.names, said.log))


if __name__ == "__main__":
    main()
