"""A mail server for tests: real SMTP on loopback, which keeps what it receives, and can go away and come back.

with MailServer() as mail:
    ... mail.url is an Apprise URL ...
    mail.stop()
    mail.start()
    mail.wait(lambda: len(mail.letters) == 1)
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from email import message_from_bytes, policy
from types import TracebackType
from typing import Self


@dataclass(frozen=True)
class Letter:
    """A received mail, with the time of time.monotonic()."""

    subject: str
    text: str
    received: float


class MailServer:
    """SMTP without TLS and authentication, on a port that stays the same."""

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    @property
    def url(self) -> str:
        return f"mailto://127.0.0.1:{self.port}?from=crawler@example.com&to=team@example.com&mode=insecure"

    @property
    def subjects(self) -> list[str]:
        return [letter.subject for letter in self.letters]

    def __enter__(self) -> Self:
        self._thread.start()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    def start(self) -> None:
        """Listen."""

        async def listen() -> None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

        asyncio.run_coroutine_threadsafe(listen(), self._loop).result(60)

    def stop(self) -> None:
        """Refuse connections."""

        async def close() -> None:
            if self._server is not None:
                self._server.close()
                self._server = None

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(60)

    def wait(self, holds: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until a condition holds."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, self.letters
            time.sleep(0.05)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 localhost ESMTP\r\n")
        while line := await reader.readline():
            verb = line.split(None, 1)[0].upper() if line.strip() else b""
            if verb == b"DATA":
                writer.write(b"354 go on\r\n")
                lines = []
                while (body := await reader.readline()) not in (b".\r\n", b""):
                    lines.append(body)
                self._keep(b"".join(lines))
            writer.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 fine\r\n")
            await writer.drain()
            if verb == b"QUIT":
                break
        writer.close()

    def _keep(self, data: bytes) -> None:
        letter = message_from_bytes(data, policy=policy.default)
        body = letter.get_body(("plain", "html"))
        text = body.get_content() if body is not None else ""
        self.letters.append(Letter(str(letter["Subject"]), text, time.monotonic()))
