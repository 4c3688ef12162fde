"""An HTTP/2 server on loopback that can end its answers in every bad way, and records what it receives."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import Event, RemoteSettingsChanged, RequestReceived
from h2.exceptions import ProtocolError

from tests.listener import Listener

Fields = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Answer:
    """The answer to one path.

    `then`: "end" the stream, "reset" it, "close" the connection, "goaway" without a head, or "hang". A body that is
    not ended by "end" is shorter than announced.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    then: str = "end"


class Http2Server(Listener):
    """Serves `pages`, by path, as an async context manager. `tls` is the context of a server certificate.

    `requests` are the headers of each request, which came at the monotonic times `asked_at`; `settings` are those that
    each client announced.
    """

    def __init__(self, tls: ssl.SSLContext, pages: Mapping[str, Answer]) -> None:
        self.requests: list[Fields] = []
        self.asked_at: list[float] = []
        self.settings: list[dict[int, int]] = []
        self._pages = pages
        self.tls = tls
        tls.set_alpn_protocols(["h2"])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        connection = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        connection.initiate_connection()
        unsent: dict[int, tuple[Answer, bytes]] = {}
        try:
            writer.write(connection.data_to_send())
            while data := await reader.read(65536):
                for event in connection.receive_data(data):
                    self._handle(event, connection, unsent)
                for stream in list(unsent):
                    if not self._send(stream, connection, unsent):
                        return
                writer.write(connection.data_to_send())
                await writer.drain()
        except (ConnectionError, ProtocolError):
            pass
        finally:
            writer.write(connection.data_to_send())
            self._open.discard(writer)
            writer.close()

    def _handle(
        self, event: Event, connection: H2Connection, unsent: dict[int, tuple[Answer, bytes]]
    ) -> None:
        if isinstance(event, RemoteSettingsChanged):
            changed = event.changed_settings.items()
            self.settings.append({int(name): setting.new_value for name, setting in changed})
        elif isinstance(event, RequestReceived):
            self.asked_at.append(time.monotonic())
            self.requests.append([(bytes(name), bytes(value)) for name, value in event.headers])
            path = dict(self.requests[-1])[b":path"].decode()
            answer = self._pages[path]
            if answer.then == "goaway":
                connection.close_connection()
                return
            whole = len(answer.body) + (0 if answer.then == "end" else 100)
            head = {":status": str(answer.status), "content-length": str(whole), **answer.headers}
            connection.send_headers(event.stream_id, list(head.items()))
            unsent[event.stream_id] = answer, answer.body

    def _send(self, stream: int, connection: H2Connection, unsent: dict[int, tuple[Answer, bytes]]) -> bool:
        """Sends what the window allows; False when the connection must be closed."""
        answer, rest = unsent[stream]
        try:
            while rest and (window := connection.local_flow_control_window(stream)):
                piece = rest[: min(window, connection.max_outbound_frame_size)]
                connection.send_data(stream, piece)
                rest = rest[len(piece) :]
        except ProtocolError:  # the client has reset the stream
            del unsent[stream]
            return True
        unsent[stream] = answer, rest
        if rest:
            return True
        del unsent[stream]
        if answer.then == "end":
            connection.end_stream(stream)
        elif answer.then == "reset":
            connection.reset_stream(stream)
        return answer.then != "close"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Returns a frame of HTTP/2 (RFC 9113, section 4.1)."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


class FrameFlood(Listener):
    """Answers the first request of each connection with the same frame without end, after a head if there is one.

    `sent` counts the bytes of those frames; `cut` is set when a client has closed its connection.
    """

    def __init__(self, tls: ssl.SSLContext, flood: bytes, head: bytes = b"") -> None:
        self.tls = tls
        self.sent = 0
        self.cut = asyncio.Event()
        self._head = head
        self._flood = flood * (65_536 // len(flood))
        tls.set_alpn_protocols(["h2"])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        await reader.read(65536)
        writer.write(frame(4, 0, 0) + self._head)
        try:
            while True:
                writer.write(self._flood)
                await writer.drain()
                await asyncio.sleep(0)  # drain does not wait on a connection that was lost a moment ago
                self.sent += len(self._flood)
        except ConnectionError:
            self.cut.set()
        finally:
            self._open.discard(writer)
            writer.close()


@contextmanager
def serving(tls: ssl.SSLContext, pages: Mapping[str, Answer]) -> Iterator[Http2Server]:
    """Runs a server in a thread, for crawls in other processes."""
    server, loop, ready = Http2Server(tls, pages), asyncio.new_event_loop(), threading.Event()
    ending = asyncio.Event()

    async def serve() -> None:
        async with server:
            ready.set()
            await ending.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert ready.wait(60)
        yield server
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join(60)
        loop.close()
