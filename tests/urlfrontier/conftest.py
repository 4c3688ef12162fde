"""Fixtures: the generated code, a server on the shared Valkey, and a client of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

import grpc
import pytest

from tests.urlfrontier.client import Client, ServerThread, generated, serving


@pytest.fixture(scope="session")
def protocol(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModuleType, ModuleType]:
    return generated(tmp_path_factory.mktemp("generated"))


@pytest.fixture
def server(redis_url: str) -> Iterator[ServerThread]:
    yield from serving(redis_url)


@pytest.fixture
def client_of(protocol: tuple[ModuleType, ModuleType]) -> Iterator[Callable[[ServerThread], Client]]:
    """Makes clients of servers without TLS, and closes their channels."""
    channels: list[grpc.Channel] = []

    def connect(server: ServerThread) -> Client:
        channels.append(grpc.insecure_channel(server.server.address))
        return Client(channels[-1], *protocol)

    yield connect
    for channel in channels:
        channel.close()


@pytest.fixture
def client(server: ServerThread, client_of: Callable[[ServerThread], Client]) -> Client:
    return client_of(server)
