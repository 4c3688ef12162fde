"""A fetch by each handler of HTTP, over a kept connection to a server in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from tests.downloads import Client, CurlClient
from tests.web import LocalWeb, Reply

HOST = "127.0.1.1"


@pytest.fixture(scope="module")
def url(body: bytes) -> Iterator[str]:
    with LocalWeb(HOST) as web:
        yield web.put(HOST, "/", Reply(body, headers={"Content-Type": "text/html"}))


@contextmanager
def entered(client: Client, runner: asyncio.Runner) -> Iterator[Client]:
    runner.run(client.__aenter__())
    yield client
    runner.run(client.__aexit__(None, None, None))


def fetch(benchmark: BenchmarkFixture, runner: asyncio.Runner, client: Client, url: str, body: bytes) -> None:
    with entered(client, runner):
        response = benchmark(lambda: runner.run(client.get(url)))
    assert response.body == body


def test_fetch(benchmark: BenchmarkFixture, runner: asyncio.Runner, url: str, body: bytes) -> None:
    """A page by the default handler, with the time of the server."""
    fetch(benchmark, runner, Client(), url, body)


def test_fetch_by_curl(benchmark: BenchmarkFixture, runner: asyncio.Runner, url: str, body: bytes) -> None:
    """A page by the curl handler over HTTP/1.1, with the time of the server."""
    fetch(benchmark, runner, CurlClient(), url, body)
