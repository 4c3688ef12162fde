"""The server around the protocol: health, reflection, TLS, several servers, and an engine that is away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
import redis
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.urlfrontier.certificates import signed_certificates
from tests.urlfrontier.client import Client, ServerThread, serving
from webcrawl.errors import ConfigurationError
from webcrawl.frontier import Crawl
from webcrawl.urlfrontier.server import Certificates

A, B = "https://a.test/1", "https://a.test/2"
SERVICE = "urlfrontier.URLFrontier"


def test_the_health_service_says_that_the_frontier_serves(client: Client) -> None:
    stub = health_pb2_grpc.HealthStub(client.channel)
    for name in ("", SERVICE):
        assert stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=30).status == 1
    with pytest.raises(grpc.RpcError) as error:
        stub.Check(health_pb2.HealthCheckRequest(service="unknown"), timeout=30)
    assert error.value.code() is grpc.StatusCode.NOT_FOUND


def test_clients_can_ask_for_the_services_and_their_messages(client: Client) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(client.channel)
    asked = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="grpc.health.v1.Health"),
    ]
    services, frontier, health = stub.ServerReflectionInfo(iter(asked), timeout=30)
    assert SERVICE in [service.name for service in services.list_services_response.service]
    (serialized,) = frontier.file_descriptor_response.file_descriptor_proto
    file = descriptor_pb2.FileDescriptorProto.FromString(serialized)
    assert [method.name for method in file.service[0].method] == [
        method.name for method in client.pb.DESCRIPTOR.services_by_name["URLFrontier"].methods
    ]
    assert health.file_descriptor_response.file_descriptor_proto


def test_servers_of_one_engine_are_its_nodes(
    server: ServerThread, client: Client, client_of: Callable[[ServerThread], Client], redis_url: str
) -> None:
    for other in serving(redis_url):
        nodes = {server.server.address, other.server.address}
        assert set(client.call("ListNodes", "Empty").values) == nodes
        assert client.put(client.discovered(A)) == ["OK"]
        assert client_of(other).put(client.discovered(A)) == ["SKIPPED"]
        assert client_of(other).urls() == [A]
        assert client.urls() == []
    assert list(client.call("ListNodes", "Empty").values) == [server.server.address]


def test_urls_survive_the_server(redis_url: str, client_of: Callable[[ServerThread], Client]) -> None:
    for server in serving(redis_url):
        client = client_of(server)
        client.put(client.discovered(A, metadata={"m": ["1"]}), client.discovered(B))
        assert client.urls(max_urls_per_queue=1, delay_requestable=600) == [A]
    for server in serving(redis_url):
        client = client_of(server)
        assert client.stats().inProcess == 1
        client.put(client.known(A, metadata={"m": ["2"]}))
        client.set_delay(0)
        assert client.urls() == [B]


def test_a_client_without_the_right_certificate_is_refused(
    redis_url: str, protocol: tuple[object, object], tmp_path: Path
) -> None:
    files = signed_certificates(tmp_path)
    root, key, certificate = (
        files[name].read_bytes() for name in ("authority", "client_key", "client_certificate")
    )
    certificates = Certificates(files["server_certificate"], files["server_key"], files["authority"])
    for server in serving(redis_url, certificates=certificates):
        address = server.server.address.replace("127.0.0.1", "localhost")
        known = grpc.ssl_channel_credentials(root, key, certificate)
        with grpc.secure_channel(address, known) as channel:
            client = Client(channel, *protocol)
            assert client.put(client.discovered(A)) == ["OK"]
        for credentials in (grpc.ssl_channel_credentials(root), None):
            made = (
                grpc.secure_channel(address, credentials) if credentials else grpc.insecure_channel(address)
            )
            with made as channel, pytest.raises(grpc.RpcError) as error:
                Client(channel, *protocol).stats()
            assert error.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_server_may_run_on_uvloop(
    redis_url: str, client_of: Callable[[ServerThread], Client], server: ServerThread
) -> None:
    uvloop = pytest.importorskip("uvloop")
    for other in serving(redis_url, new_loop=uvloop.new_event_loop):
        assert client_of(other).put(client_of(other).discovered(A)) == ["OK"]
    assert client_of(server).urls() == [A]


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read .*absent.pem"):
        Certificates(tmp_path / "absent.pem", tmp_path / "absent.pem").context()


def test_a_full_engine_fails_what_clients_may_send_again(client: Client, valkey: redis.Redis) -> None:
    client.put(client.discovered(A))
    valkey.config_set("maxmemory", 1)
    try:
        assert client.put(client.discovered(B), client.discovered("")) == ["FAIL", "SKIPPED"]
        assert client.urls() == [A], "what frees memory goes on"
    finally:
        valkey.config_set("maxmemory", 0)
    assert client.put(client.discovered(B)) == ["OK"]


def test_a_crawl_of_workers_is_not_one_of_clients(server: ServerThread, client: Client) -> None:
    keys = replace(server.queues.keys, crawl="broad")
    server.wait(Crawl(server.engine, keys, "worker").begin())
    with pytest.raises(grpc.RpcError) as error:
        client.put(client.discovered(A, crawl="broad"))
    assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert error.value.details() == "crawl 'broad' is one of workers: choose another crawl ID"
    assert client.call("DeleteCrawl", "DeleteCrawlMessage", value="broad").value == 0
    client.put(client.discovered(A, crawl="mine"))
    with pytest.raises(ConfigurationError, match="'mine' is one of clients of scrapy urlfrontier"):
        server.wait(Crawl(server.engine, replace(keys, crawl="mine"), "worker").begin())
    assert list(client.call("ListCrawls", "Local").values) == ["mine"]


def test_a_paused_crawl_gives_nothing(server: ServerThread, client: Client) -> None:
    client.put(client.discovered(A))
    crawl = Crawl(server.engine, replace(server.queues.keys, crawl="DEFAULT"), "operator")
    server.wait(crawl.pause())
    assert client.urls() == []
    server.wait(crawl.resume())
    assert client.urls() == [A]


def test_the_level_of_the_log_can_be_set(client: Client) -> None:
    before = logging.getLogger("webcrawl.urlfrontier").level
    try:
        for package in ("webcrawl.urlfrontier", "crawlercommons.urlfrontier.service.rocksdb"):
            for level, expected in ((1, logging.DEBUG), (4, logging.ERROR)):
                client.call("SetLogLevel", "LogLevelParams", package=package, level=level)
                assert logging.getLogger("webcrawl.urlfrontier").level == expected
    finally:
        logging.getLogger("webcrawl.urlfrontier").setLevel(before)


def test_a_client_that_leaves_costs_only_its_own_call(server: ServerThread, client: Client) -> None:
    client.put_batch([client.info(f"https://h{n % 50}.test/{n}") for n in range(3000)])
    stream = client.stub.GetURLs(client.pb.GetParams(delay_requestable=1), timeout=600)
    next(stream)
    stream.cancel()
    client.set_delay(0)
    deadline = time.monotonic() + 120
    while server.server._tasks:
        assert time.monotonic() < deadline, "the call goes on without its client"
        time.sleep(0.01)
    given: set[str] = set()
    while len(given) < 3000:
        assert time.monotonic() < deadline
        given.update(client.urls(delay_requestable=600))
        time.sleep(0.1)
