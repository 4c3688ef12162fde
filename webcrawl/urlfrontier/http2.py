"""The server's side of HTTP/2: streams of bytes with flow control in both directions, over the library h2.

Requests arrive in DATA frames that may have many small messages each, and answers are written likewise, so the cost of
a frame is that of a batch. A stream's unread bytes are bounded by its window: what is not read is not acknowledged, and
the client sends no more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame, SettingsFrame

from webcrawl.errors import brief

logger = logging.getLogger(__name__)

Headers: TypeAlias = list[tuple[bytes, bytes]]

_STREAM_WINDOW = 256 << 10
"""Bytes of a stream that wait for its reader."""
_CONNECTION_WINDOW = 4 << 20
"""Bytes of all streams of a connection that wait for their readers."""
_MOST_STREAMS = 1000
_KNOWN_SETTINGS = frozenset(map(int, SettingCodes))
_MOST_HEADER_TABLE = 4_096
"""Bytes of heads that are kept to send them again in short."""
_MOST_HEADERS = 16 << 10
"""Bytes of the head of a request."""
_MOST_WRITTEN = 64 << 10
"""Bytes of an answer that wait for the client to make room; its writer waits for more."""
_MOST_RESETS = 200
"""Streams of a second that a client may begin and reset before the connection is closed."""
_FIRST_SECONDS = 20.0
"""How long a new connection may say nothing."""


class _Connection(H2Connection):
    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        # h2 would close the connection, but a client that says goodbye still waits for the answers of its streams
        return [], [ConnectionTerminated()]

    def _receive_settings_frame(self, frame: SettingsFrame) -> tuple[list[Frame], list[Event]]:
        # h2 would keep unknown settings, which are to be ignored (RFC 9113, section 6.5.2), and any size of its table
        frame.settings = {code: value for code, value in frame.settings.items() if code in _KNOWN_SETTINGS}
        if SettingCodes.HEADER_TABLE_SIZE in frame.settings:
            size = frame.settings[SettingCodes.HEADER_TABLE_SIZE]
            frame.settings[SettingCodes.HEADER_TABLE_SIZE] = min(size, _MOST_HEADER_TABLE)
        return super()._receive_settings_frame(frame)


class HttpStream:
    """A request of a client, and the bytes of its answer."""

    def __init__(self, connection: HttpConnection, number: int, headers: Headers) -> None:
        self.headers = headers
        self.number = number
        self.is_ended = False
        """Whether the client sends no more."""
        self.unread = 0
        """Bytes, with padding, that were received and not read."""
        self.waiting = bytearray()
        """What is to be written as soon as the client makes room."""
        self.task: asyncio.Task[None]
        self._connection = connection
        self._chunks: list[bytes] = []
        self._arrived = asyncio.Event()
        self._written = asyncio.Event()

    async def read(self) -> bytes:
        """Returns all bytes that have arrived, and waits for some; empty after the last ones."""
        while not (self._chunks or self.is_ended):
            self._arrived.clear()
            await self._arrived.wait()
        received = b"".join(self._chunks)
        self._chunks.clear()
        self._connection.acknowledge(self)
        return received

    def begin(self, headers: Headers) -> None:
        """Sends the head of the answer."""
        self._connection.send_headers(self, headers, is_last=False)

    async def write(self, body: bytes) -> None:
        """Sends a part of the answer; waits while the client does not read."""
        self.waiting += body
        self._connection.send(self)
        await self._until(_MOST_WRITTEN)

    async def end(self, headers: Headers) -> None:
        """Sends the trailers, or the only head of an answer, as soon as the client has taken the rest."""
        await self._until(0)
        self._connection.send_headers(self, headers, is_last=True)

    def reset(self) -> None:
        """Ends the stream without its answer."""
        self._connection.reset(self)

    @property
    def is_writable(self) -> bool:
        """Whether the client reads what is written to its connection."""
        return self._connection.writes

    def feed(self, body: bytes, size: int) -> None:
        """Adds bytes that have arrived; `size` counts their padding too."""
        self.unread += size
        self._chunks.append(body)
        self._arrived.set()

    def feed_end(self) -> None:
        self.is_ended = True
        self._arrived.set()

    def note_written(self) -> None:
        self._written.set()

    async def _until(self, size: int) -> None:
        while len(self.waiting) > size or not self._connection.writes:
            if self._connection.streams.get(self.number) is not self:
                # the client has left; what the task waited for then may have dropped its cancellation
                raise asyncio.CancelledError
            self._written.clear()
            await self._written.wait()


class HttpConnection(asyncio.Protocol):
    """A connection of a client. `answer` answers each stream in a task of its own, which ends with the stream.

    `opened` has all connections that are open, and `tasks` those of all streams, until they have ended.
    """

    def __init__(
        self,
        answer: Callable[[HttpStream], Awaitable[None]],
        opened: set[HttpConnection],
        tasks: set[asyncio.Task[None]],
    ) -> None:
        self.writes = True
        """Whether the client reads what is written."""
        self.streams: dict[int, HttpStream] = {}
        self._answer = answer
        self._opened = opened
        self._tasks = tasks
        self._http = _Connection(H2Configuration(client_side=False))
        self._transport: asyncio.Transport
        self._closing = False
        self._resets = 0
        self._resets_since = 0.0
        self._first: asyncio.TimerHandle
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses
        self._transport = cast(asyncio.Transport, transport)
        self._opened.add(self)
        self._http.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: _MOST_STREAMS,
                SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
                SettingCodes.MAX_HEADER_LIST_SIZE: _MOST_HEADERS,
            },
        )
        self._http.initiate_connection()
        self._http.decoder.max_header_list_size = _MOST_HEADERS
        self._http.increment_flow_control_window(_CONNECTION_WINDOW - 65_535)
        self._flush()
        self._first = asyncio.get_running_loop().call_later(_FIRST_SECONDS, transport.close)

    def data_received(self, received: bytes) -> None:
        self._first.cancel()
        try:
            events = self._http.receive_data(received)
        except ProtocolError as error:
            logger.info("A client broke the protocol: %s", brief(error))
            self._flush()  # h2 has said why
            self.close()
            return
        for event in events:
            if self._transport.is_closing():
                return
            self._take(event)
        if any(isinstance(event, WindowUpdated | RemoteSettingsChanged) for event in events):
            for stream in list(self.streams.values()):
                if stream.waiting:
                    self.send(stream)
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._first.cancel()
        self._opened.discard(self)
        self._closing = True
        for stream in list(self.streams.values()):
            self._drop(stream)
        self.closed.set()

    def pause_writing(self) -> None:
        # a client that does not read gets no answers to pings and settings either, so it can make none wait
        self.writes = False
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self.writes = True
        if not self._transport.is_closing():
            self._transport.resume_reading()
        for stream in self.streams.values():
            stream.note_written()

    def acknowledge(self, stream: HttpStream) -> None:
        """Lets the client send as many bytes again as were read."""
        size, stream.unread = stream.unread, 0
        if size and not self._transport.is_closing():
            self._http.acknowledge_received_data(size, stream.number)
            self._flush()

    def send_headers(self, stream: HttpStream, headers: Headers, *, is_last: bool) -> None:
        if stream.number in self.streams:
            self._http.send_headers(stream.number, headers, end_stream=is_last)
            if is_last and not stream.is_ended:
                # RFC 9113, section 8.1: the rest of the request is not needed
                self._http.reset_stream(stream.number, ErrorCodes.NO_ERROR)
            self._flush()

    def reset(self, stream: HttpStream) -> None:
        """Ends a stream without an answer."""
        if stream.number in self.streams:
            with suppress(ProtocolError):
                self._http.reset_stream(stream.number, ErrorCodes.CANCEL)
            self._flush()

    def send(self, stream: HttpStream) -> None:
        """Sends of what waits as much as the client has room for."""
        waiting = stream.waiting
        with suppress(StreamClosedError):  # the client has reset it, and that event has not been taken yet
            while waiting and stream.number in self.streams:
                room = self._http.local_flow_control_window(stream.number)
                size = min(len(waiting), room, self._http.max_outbound_frame_size)
                if size <= 0:
                    break
                self._http.send_data(stream.number, bytes(waiting[:size]))
                del waiting[:size]
        self._flush()
        stream.note_written()

    def say_goodbye(self) -> None:
        """Asks the client to begin no further streams here; those that it has begun go on."""
        self._closing = True
        if not self._transport.is_closing():
            # h2's own method would end the streams
            last = GoAwayFrame(0, last_stream_id=self._http.highest_inbound_stream_id)
            self._transport.write(last.serialize())
        self._close_if_idle()

    def close(self) -> None:
        """Ends all streams and closes the connection."""
        self._closing = True
        for stream in list(self.streams.values()):
            self._drop(stream)
        self._transport.close()

    def _take(self, event: Event) -> None:
        if isinstance(event, DataReceived):
            stream = self.streams.get(event.stream_id)
            size = event.flow_controlled_length
            if stream is not None and event.data:
                stream.feed(event.data, size)
            elif size:
                self._http.acknowledge_received_data(size, event.stream_id)
        elif isinstance(event, RequestReceived):
            self._begin(event)
        elif isinstance(event, StreamEnded):
            if (stream := self.streams.get(event.stream_id)) is not None:
                stream.feed_end()
        elif isinstance(event, StreamReset):
            if (stream := self.streams.get(event.stream_id)) is not None:
                self._drop(stream)
                self._close_if_idle()
            self._count_reset()
        elif isinstance(event, ConnectionTerminated):
            self._closing = True
            self._close_if_idle()

    def _begin(self, event: RequestReceived) -> None:
        number = event.stream_id
        if self._closing:
            with suppress(StreamClosedError):  # the client may have reset it meanwhile
                self._http.reset_stream(number, ErrorCodes.REFUSED_STREAM)
            return
        stream = self.streams[number] = HttpStream(self, number, event.headers)
        stream.task = asyncio.create_task(self._run(stream))
        self._tasks.add(stream.task)
        stream.task.add_done_callback(self._tasks.discard)

    async def _run(self, stream: HttpStream) -> None:
        try:
            await self._answer(stream)
        finally:
            self.acknowledge(stream)
            if self.streams.pop(stream.number, None) is not None:
                self._close_if_idle()

    def _drop(self, stream: HttpStream) -> None:
        del self.streams[stream.number]
        self.acknowledge(stream)  # a task that has not begun will not
        stream.task.cancel()

    def _count_reset(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._resets_since >= 1:
            self._resets_since, self._resets = now, 0
        self._resets += 1
        if self._resets > _MOST_RESETS:
            logger.warning("A client resets streams as soon as it begins them: its connection is closed")
            with suppress(ProtocolError):
                self._http.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            self._flush()
            self.close()

    def _close_if_idle(self) -> None:
        if self._closing and not self.streams:
            self._transport.close()

    def _flush(self) -> None:
        if (outgoing := self._http.data_to_send()) and not self._transport.is_closing():
            self._transport.write(outgoing)
