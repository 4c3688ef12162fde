"""gRPC and HTTP/2 themselves: deadlines, cancellation, compression, flow control, and clients that break the rules."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.settings import SettingCodes

from tests.cases import cases
from tests.urlfrontier.certificates import signed_certificates
from tests.urlfrontier.client import Client, ServerThread
from webcrawl.errors import ConfigurationError
from webcrawl.urlfrontier.server import Certificates, FrontierServer

A = "https://a.test/1"
SERVICE = "/urlfrontier.URLFrontier"
HEAD = {
    ":method": "POST",
    ":scheme": "http",
    ":path": f"{SERVICE}/GetStats",
    ":authority": "frontier",
    "content-type": "application/grpc",
    "te": "trailers",
}


class RawClient:
    """A connection of HTTP/2 that sends what it is asked to, whether or not a client of gRPC would."""

    def __init__(self, address: str, **settings: int) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self.http = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.http.initiate_connection()
        if settings:
            self.http.update_settings({SettingCodes[name]: value for name, value in settings.items()})
        self.flush()

    def flush(self) -> None:
        self.socket.sendall(self.http.data_to_send())

    def request(self, body: bytes = b"", *, end: bool = True, **head: str | None) -> int:
        fields = HEAD | {name.replace("_", "-"): value for name, value in head.items()}
        path = fields.pop("path", None)
        method = fields.pop("method", None)
        fields[":path"], fields[":method"] = path or fields[":path"], method or fields[":method"]
        number = self.http.get_next_available_stream_id()
        given = [(name, value) for name, value in fields.items() if value is not None]
        self.http.send_headers(number, sorted(given), end_stream=not body and end)
        if body:
            self.http.send_data(number, body, end_stream=end)
        self.flush()
        return number

    def events(self) -> Iterator[Event]:
        """Yields what the server says, until it closes the connection."""
        while received := self.socket.recv(65_536):
            yield from self.http.receive_data(received)
            self.flush()

    def answer(self, number: int) -> dict[str, str]:
        """Returns the fields of the heads of an answer, as soon as it is complete."""
        fields: dict[str, str] = {}
        for event in self.events():
            if isinstance(event, ResponseReceived | TrailersReceived) and event.stream_id == number:
                fields |= dict(event.headers)  # type: ignore[arg-type]
            elif isinstance(event, StreamEnded | StreamReset) and event.stream_id == number:
                return fields
        raise AssertionError("the server closed the connection")


@pytest.fixture
def raw(server: ServerThread) -> Iterator[RawClient]:
    client = RawClient(server.server.address)
    with contextlib.closing(client.socket):
        yield client


def message(serialized: bytes, flag: int = 0) -> bytes:
    return struct.pack(">BI", flag, len(serialized)) + serialized


def metadata_of(call: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in call.initial_metadata()}


@pytest.mark.parametrize("coding", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_messages_may_be_compressed(client: Client, coding: grpc.Compression) -> None:
    items = [client.discovered(f"https://a.test/{n}/" + "x" * 500) for n in range(50)]
    assert len(list(client.stub.PutURLs(iter(items), timeout=30, compression=coding))) == 50
    assert client.stats().size == 50


@cases(
    ("body", "head", "status", "words"),
    [
        (message(b""), {}, "0", ""),
        (message(b""), {"content_type": "application/grpc+proto", "te": None}, "0", ""),
        (message(b""), {"path": f"{SERVICE}/Nothing"}, "12", f"no method {SERVICE}/Nothing"),
        (message(b""), {"path": "/"}, "12", "no method /"),
        (message(b""), {"grpc_timeout": "soon"}, "13", "grpc-timeout 'soon' is not a time"),
        (message(b""), {"grpc_timeout": "99999999H"}, "0", ""),
        (message(b""), {"grpc_encoding": "snappy"}, "12", "'snappy': use identity, gzip or deflate"),
        (message(b"x", 1), {}, "13", "grpc-encoding does not say how"),
        (message(b"xyz", 1), {"grpc_encoding": "gzip"}, "13", "cannot be decompressed"),
        (message(b"\x1f", 1), {"grpc_encoding": "gzip"}, "13", "a compressed message ends too early"),
        (b"", {}, "13", "takes one message, but none came"),
        (message(b"") * 3, {}, "13", "takes one message, but more came"),
        (message(b"abc")[:-1], {}, "13", "the stream ends amid a message"),
        (b"\0\0", {}, "13", "the stream ends amid a message"),
        (b"\0\xff\xff\xff\xff", {}, "8", "a message has 4294967295 bytes, but at most 4194304 are taken"),
        (message(b"\xff"), {}, "3", "these bytes are not a message QueueWithinCrawlParams"),
    ],
)
def test_a_call_ends_with_its_status(
    raw: RawClient, body: bytes, head: dict[str, str | None], status: str, words: str
) -> None:
    answer = raw.answer(raw.request(body, **head))
    assert answer[":status"] == "200"
    assert answer["grpc-status"] == status
    assert words in answer.get("grpc-message", "")


def test_a_bomb_of_compressed_bytes_is_refused(raw: RawClient) -> None:
    import gzip

    bomb = message(gzip.compress(bytes(5 << 20)), 1)
    assert len(bomb) < 16_000
    answer = raw.answer(raw.request(bomb, grpc_encoding="gzip"))
    assert (answer["grpc-status"], answer["grpc-message"]) == (
        "8",
        "a compressed message has more than 4194304 bytes",
    )


@cases(
    ("head", "status"),
    [({"method": "GET"}, "405"), ({"content_type": "text/html"}, "415"), ({"content_type": None}, "415")],
)
def test_requests_of_other_protocols_get_an_http_status(
    raw: RawClient, head: dict[str, str | None], status: str
) -> None:
    assert raw.answer(raw.request(**head))[":status"] == status


def test_a_message_may_have_four_mib(client: Client) -> None:
    key = "k" * 255
    infos = [client.info(f"https://a.test/{n}", key, metadata={"m": ["x" * 60_000]}) for n in range(69)]
    batch = client.pb.DiscoveredBatch(items=infos)
    assert 4_000_000 < batch.ByteSize() < 4 << 20
    (ack,) = client.stub.PutDiscovered(iter([batch]), timeout=30)
    assert list(ack.statuses) == [0] * 69
    assert len(client.get(key=key)) == 69, "and an answer may have more than a window"


def test_a_call_ends_at_its_deadline(client: Client) -> None:
    def never() -> Iterator[Any]:
        yield client.discovered(A)
        time.sleep(5)

    call = client.stub.PutURLs(never(), timeout=0.5)
    assert next(call).status == 0
    with pytest.raises(grpc.RpcError) as error:
        next(call)
    assert error.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert client.urls() == [A]


def connections(server: ServerThread) -> list[Any]:
    return list(server.server._connections)


def until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_streams_that_end_in_any_way_leave_nothing(server: ServerThread, client: Client) -> None:
    for _ in range(5):
        stream = client.stub.PutURLs(iter([client.discovered(A)]), timeout=30)
        next(stream)
        stream.cancel()
    with pytest.raises(grpc.RpcError):
        client.call("DeleteQueue", "QueueWithinCrawlParams")
    client.put(client.discovered(A))
    until(lambda: not any(connection.streams for connection in connections(server)))
    client.channel.close()
    until(lambda: not connections(server))


def test_a_client_that_does_not_read_is_not_read_and_blocks_nobody(
    server: ServerThread, client: Client
) -> None:
    """Its window is one acknowledgement; the rest of what it sends waits on its own side."""
    slow = RawClient(server.server.address, INITIAL_WINDOW_SIZE=10)
    with contextlib.closing(slow.socket):
        item = client.discovered(A, id="1" * 1000).SerializeToString()
        number = slow.request(message(item), end=False, path=f"{SERVICE}/PutURLs")
        sent = 0
        while (room := slow.http.local_flow_control_window(number)) > len(item) + 5:
            slow.http.send_data(number, message(item))
            slow.http.send_data(number, b"")  # a frame without bytes makes no room for others
            slow.flush()
            sent += 1
            slow.socket.settimeout(0.0)
            with contextlib.suppress(BlockingIOError):
                slow.http.receive_data(slow.socket.recv(65_536))
            slow.socket.settimeout(20)
            assert sent < 2000, room
        assert client.put(client.discovered("https://b.test/")) == ["OK"]
        (stream,) = (s for c in connections(server) for s in c.streams.values())
        assert len(stream.waiting) < 1 << 20


def test_a_client_that_begins_and_resets_streams_is_cut_off(server: ServerThread, client: Client) -> None:
    flood = RawClient(server.server.address)
    with contextlib.closing(flood.socket):
        for _ in range(1000):
            number = flood.http.get_next_available_stream_id()
            flood.http.send_headers(number, sorted(HEAD.items()))
            flood.http.reset_stream(number)
        with contextlib.suppress(ConnectionError):
            flood.flush()
            assert any(isinstance(event, ConnectionTerminated) for event in flood.events())
    assert client.stats().size == 0, "the others go on"


def test_a_stream_that_is_reset_gives_its_bytes_back_to_the_connection(raw: RawClient) -> None:
    raw.answer(raw.request(message(b"")))  # reads how much room the server makes
    for _ in range(160):
        number = raw.http.get_next_available_stream_id()
        raw.http.send_headers(number, sorted(HEAD.items()))
        raw.http.send_data(number, bytes(16_384))
        raw.http.reset_stream(number)
    raw.flush()
    assert raw.answer(raw.request(message(b"")))["grpc-status"] == "0"
    assert raw.http.outbound_flow_control_window > 3 << 20


def test_a_second_message_for_a_method_with_one_is_refused_at_once(raw: RawClient) -> None:
    answer = raw.answer(raw.request(message(b"") * 2, end=False))
    assert (answer["grpc-status"], answer["grpc-message"]) == (
        "13",
        "the method takes one message, but more came",
    )


def test_a_deadline_counts_while_the_client_makes_no_room(server: ServerThread) -> None:
    raw = RawClient(server.server.address, INITIAL_WINDOW_SIZE=0)
    with contextlib.closing(raw.socket):
        number = raw.request(message(b""), grpc_timeout="300m", path=f"{SERVICE}/ListCrawls")
        assert raw.answer(number)["grpc-status"] == "4"


def test_a_connection_ends_with_a_call_that_is_cancelled_after_a_goodbye(server: ServerThread) -> None:
    from hyperframe.frame import GoAwayFrame

    raw = RawClient(server.server.address)
    with contextlib.closing(raw.socket):
        number = raw.request(end=False, path=f"{SERVICE}/PutURLs")
        raw.socket.sendall(GoAwayFrame(0).serialize())
        raw.http.reset_stream(number)
        raw.flush()
        while raw.socket.recv(65_536):
            pass
    until(lambda: not connections(server))


def test_settings_of_a_client_take_bounded_memory(server: ServerThread, raw: RawClient) -> None:
    given = {SettingCodes.HEADER_TABLE_SIZE: 2**32 - 1, **dict.fromkeys(range(1_000, 3_000), 1)}
    body = b"".join(struct.pack(">HI", *setting) for setting in given.items())
    raw.socket.sendall(struct.pack(">I", len(body))[1:] + b"\4\0\0\0\0\0" + body)
    assert raw.answer(raw.request(message(b"")))["grpc-status"] == "0"
    (connection,) = connections(server)
    assert len(connection._http.remote_settings) < 20
    assert connection._http.encoder.header_table_size == 4_096


def test_a_long_head_ends_the_connection(server: ServerThread, raw: RawClient) -> None:
    with contextlib.suppress(ConnectionError), pytest.raises(AssertionError, match="closed the connection"):
        raw.answer(raw.request(path="/" + "x" * 40_000))
    until(lambda: not connections(server))


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", bytes(2000), b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"]
)
def test_bytes_that_are_no_http2_end_the_connection(server: ServerThread, garbage: bytes) -> None:
    host, _, port = server.server.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as client:
        client.sendall(garbage)
        with contextlib.suppress(ConnectionError):
            while client.recv(4096):
                pass
    until(lambda: not connections(server))


def test_a_client_may_say_goodbye_and_still_get_its_answers(server: ServerThread) -> None:
    from hyperframe.frame import GoAwayFrame

    client = RawClient(server.server.address)
    with contextlib.closing(client.socket):
        number = client.request(end=False, path=f"{SERVICE}/GetStats")
        client.socket.sendall(GoAwayFrame(0).serialize())
        client.http.send_data(number, message(b""), end_stream=True)
        client.flush()
        fields: dict[str, str] = {}
        for event in client.events():
            if isinstance(event, TrailersReceived):
                fields |= dict(event.headers)  # type: ignore[arg-type]
        assert fields["grpc-status"] == "0", "the server closes the connection afterwards"


def test_a_server_that_stops_lets_calls_end(server: ServerThread, client: Client) -> None:
    raw = RawClient(server.server.address)
    with contextlib.closing(raw.socket):
        number = raw.request(end=False, path=f"{SERVICE}/PutURLs")
        raw.http.send_data(number, message(client.discovered(A).SerializeToString()))
        raw.flush()
        events = raw.events()
        assert any(isinstance(event, DataReceived) for event in events)
        server.loop.call_soon_threadsafe(connections(server)[0].say_goodbye)
        received = raw.socket.recv(65_536)
        assert received[3] == 7, "a GOAWAY frame"
        raw.http.send_data(
            number, message(client.discovered("https://b.test/").SerializeToString()), end_stream=True
        )
        raw.flush()
        fields = raw.answer(number)
        assert fields["grpc-status"] == "0"
        assert raw.socket.recv(65_536) == b"", "the connection ends with its last call"
    assert sorted(client.urls()) == [A, "https://b.test/"]


@pytest.mark.parametrize("package", ["grpc.reflection.v1", "grpc.reflection.v1alpha"])
def test_reflection_answers_in_both_versions(client: Client, package: str) -> None:
    from webcrawl.urlfrontier.messages import message_class

    request = message_class(f"{package}.ServerReflectionRequest")
    call = client.channel.stream_stream(
        f"/{package}.ServerReflection/ServerReflectionInfo",
        request_serializer=request.SerializeToString,
        response_deserializer=message_class(f"{package}.ServerReflectionResponse").FromString,
    )
    asked = [
        request(file_by_filename="urlfrontier.proto"),
        request(file_containing_symbol=f"{package}.ServerReflection"),
        request(all_extension_numbers_of_type="urlfrontier.URLInfo"),
        request(file_containing_symbol="nothing"),
        request(),
    ]
    by_name, by_symbol, extensions, unknown, empty = call(iter(asked), timeout=30)
    assert by_name.file_descriptor_response.file_descriptor_proto
    assert by_symbol.file_descriptor_response.file_descriptor_proto
    assert extensions.all_extension_numbers_response.base_type_name == "urlfrontier.URLInfo"
    assert (unknown.error_response.error_code, empty.error_response.error_code) == (5, 3)
    assert by_name.original_request == asked[0]


def test_those_who_watch_the_health_see_it_end(server: ServerThread, client: Client) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    stub = health_pb2_grpc.HealthStub(client.channel)
    watched = stub.Watch(health_pb2.HealthCheckRequest(), timeout=30)
    unknown = stub.Watch(health_pb2.HealthCheckRequest(service="unknown"), timeout=30)
    assert (next(watched).status, next(unknown).status) == (1, 3)
    assert {status.status for status in stub.List(health_pb2.HealthListRequest()).statuses.values()} == {1}
    health = server.server._health
    server.loop.call_soon_threadsafe(lambda: health.set(serving=False))
    assert next(watched).status == 2
    server.loop.call_soon_threadsafe(lambda: health.set(serving=True))
    assert next(watched).status == 1
    server.loop.call_soon_threadsafe(health.end)
    assert [status.status for status in watched] == [2]
    assert list(unknown) == []


def test_files_that_are_no_certificates_are_named(tmp_path: Path) -> None:
    files = signed_certificates(tmp_path)
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    good = files["server_certificate"], files["server_key"]
    for certificates, words in (
        (Certificates(wrong, good[1]), "not a certificate and its private key"),
        (Certificates(good[0], files["client_key"]), "not a certificate and its private key"),
        (Certificates(*good, wrong), "wrong.pem has no certificate"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            certificates.context()


def test_an_address_in_use_is_named(server: ServerThread) -> None:
    address = server.server.address
    with pytest.raises(ConfigurationError, match=f"cannot listen at {address}: Address already in use"):
        FrontierServer(server.queues, address)
