"""Whatever bytes a client sends, the server's side of HTTP/2 raises nothing, and no task stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import ProtocolError
from hypothesis import given, settings, strategies as st

from webcrawl.urlfrontier.calls import Calls, RemoteMethod
from webcrawl.urlfrontier.http2 import HttpConnection
from webcrawl.urlfrontier.messages import Empty, Long

HEAD = {
    ":method": "POST",
    ":scheme": "http",
    ":path": "/a/Many",
    ":authority": "x",
    "content-type": "application/grpc",
}
FIELDS = st.tuples(
    st.sampled_from([":path", ":method", "grpc-timeout", "grpc-encoding", "x"]),
    st.sampled_from(["", "/a/One", "1n", "gzip", "a b"]),
)
BODIES = st.sampled_from([b"", bytes(5), bytes(50), b"\1\0\0\0\1x", b"\0\xff\xff\xff\xff", b"\0\0"])
STEPS = st.one_of(
    st.tuples(st.just("request"), st.lists(FIELDS, max_size=1), BODIES, st.booleans()),
    st.tuples(st.just("reset"), st.sampled_from([1, 3])),
    st.tuples(st.just("window"), st.sampled_from([1, 2**31 - 1]), st.sampled_from([None, 1])),
    st.tuples(st.just("settings"), st.sampled_from([1, 3, 4, 5, 6]), st.sampled_from([0, 1, 16_384, 2**24 - 1])),
    # a frame of any type, on a stream or on none
    st.tuples(st.just("frame"), st.integers(0, 15), st.integers(0, 255), st.integers(0, 5), st.binary(max_size=30)),
)  # fmt: skip
DAMAGES = st.lists(st.tuples(st.integers(24, 400), st.integers(0, 255)), max_size=3)


class Discarding(asyncio.Transport):
    """Discards what is written."""

    is_closed = False

    def write(self, data: Any) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


class AllTasks(set[asyncio.Task[None]]):
    """Has tasks also after they have ended."""

    def discard(self, task: asyncio.Task[None]) -> None:
        assert task in self


async def single(_: Any) -> Any:
    return Long(value=1)


async def many(requests: AsyncIterator[list[Any]]) -> AsyncGenerator[list[Any]]:
    async for messages in requests:
        yield [Long(value=1) for _ in messages]


CALLS = Calls(
    {b"/a/One": RemoteMethod(single, Empty, False, False), b"/a/Many": RemoteMethod(many, Empty, True, True)}
)


def sent(steps: list[tuple[Any, ...]], damages: list[tuple[int, int]]) -> bytes:
    client = H2Connection(H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False))
    client.initiate_connection()
    stream = bytearray()
    for kind, *values in steps:
        try:
            if kind == "request":
                fields, body, is_last = values
                number = client.get_next_available_stream_id()
                client.send_headers(number, list((HEAD | dict(fields)).items()))
                client.send_data(number, body, end_stream=is_last)
            elif kind == "reset":
                client.reset_stream(values[0])
            elif kind == "window":
                client.increment_flow_control_window(*values)
            elif kind == "settings":
                client.update_settings(dict([values]))
        except (ProtocolError, KeyError, ValueError):
            continue  # the steps before do not allow this one
        stream += client.data_to_send()
        if kind == "frame":
            number, flags, on, payload = values
            stream += len(payload).to_bytes(3) + bytes([number, flags]) + on.to_bytes(4) + payload
    for place, value in damages:
        if place < len(stream):
            stream[place] = value
    return bytes(stream)


async def answered(stream: bytes, size: int, *, takes_turns: bool) -> None:
    opened, tasks, failures = set[HttpConnection](), AllTasks(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    connection, transport = HttpConnection(CALLS.answer, opened, tasks), Discarding()
    connection.connection_made(transport)
    for start in range(0, len(stream), size):
        if not transport.is_closed:
            connection.data_received(stream[start : start + size])
            if takes_turns:
                await asyncio.sleep(0)
    for _ in range(5):  # the loop says only later that a closed connection is lost
        await asyncio.sleep(0)
    connection.connection_lost(None)
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert not [error for error in ended if isinstance(error, Exception)]
    await asyncio.sleep(0)
    assert not (opened or failures or connection.streams)


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=6), DAMAGES, st.sampled_from([1, 60, 100_000]), st.booleans())
def test_no_bytes_break_the_server(
    steps: list[tuple[Any, ...]], damages: list[tuple[int, int]], size: int, takes_turns: bool
) -> None:
    asyncio.run(answered(sent(steps, damages), size, takes_turns=takes_turns))
