"""TLS in front of real servers that have none, as stunnel puts it there."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from tests.listener import Listener
from tests.wire import running


class Terminator(Listener):
    """Passes what it decrypts to the server at `target`, a port of 127.0.0.1.

    Replies name the ports in `shown` instead of those that are its keys, as behind a router. All have five digits.
    """

    def __init__(self, tls: ssl.SSLContext, target: int, shown: Mapping[int, int]) -> None:
        self.tls = tls
        self.connections = 0
        self._target = target
        self._shown = shown

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            await asyncio.gather(self._copy(reader, back), self._copy(there, writer, self._shown))
        except OSError:
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    @staticmethod
    async def _copy(
        source: asyncio.StreamReader, sink: asyncio.StreamWriter, shown: Mapping[int, int] | None = None
    ) -> None:
        while data := await source.read(65536):
            for port, other in (shown or {}).items():
                data = data.replace(b"\r\n%d\r\n" % port, b"\r\n%d\r\n" % other)
            sink.write(data)
        sink.close()


@contextmanager
def terminating(
    tls: ssl.SSLContext, ports: list[int], *, rewrite: bool = False
) -> Iterator[dict[int, Terminator]]:
    """Runs a terminator for each port, by port; with `rewrite`, replies name these instead of the servers."""
    shown: dict[int, int] = {}
    with ExitStack() as stack:
        fronts = {port: stack.enter_context(running(Terminator(tls, port, shown))) for port in ports}
        if rewrite:
            shown |= {port: front.port for port, front in fronts.items()}
        yield fronts
