"""Measures `scrapy urlfrontier` with its embedded engine: one client process, one stream.

    make bench-urlfrontier [ARGS="--urls 20000"]

Each bar is a target; the exit status is 1 if one is missed. `sent back` is a server that only returns each message: no
frontier with grpcio acknowledges single URLs faster. Processor times are those of the client and of the server.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc

from benchmarks.command import ROOT, command_line, scrapy
from benchmarks.frontier_bench import cpu_seconds
from tests.urlfrontier.client import Client, generated

PUTS, GETS = 25_000, 10_000
_HOSTS, _BATCH = 1_000, 100
_ECHO = [sys.executable, "-m", "benchmarks.urlfrontier", "--serve-echo"]


def measure(name: str, server: int, bar: int, work: Callable[[], int]) -> bool:
    """Prints the speed of `work`, which returns the number of its URLs; returns whether it is below the bar."""
    began, cost, served = time.perf_counter(), time.process_time(), cpu_seconds(server)
    urls = work()
    speed = urls / (time.perf_counter() - began)
    costs = [1e6 * used / urls for used in (time.process_time() - cost, cpu_seconds(server) - served)]
    target = f"  bar {bar:,}" if bar else ""
    print(
        f"{name:<14}{speed:>9,.0f} URLs/s  client {costs[0]:.0f} us, server {costs[1]:.0f} us{target}",
        flush=True,
    )
    return speed < bar


def measure_frontier(client: Client, server: int, urls: int) -> bool:
    """Measures the three methods; returns whether a bar is missed."""
    addresses = [f"{n % _HOSTS}.test/path/of/page/{n}" for n in range(3 * urls)]
    items = [client.discovered(f"http://single{address}", id="1") for address in addresses[:urls]]
    infos = [client.info(f"http://batch{address}") for address in addresses]
    batches = [
        client.pb.DiscoveredBatch(items=infos[start : start + _BATCH])
        for start in range(0, len(infos), _BATCH)
    ]
    put, put_batches = client.stub.PutURLs, client.stub.PutDiscovered

    def get() -> int:
        total = 0
        while total < urls:
            total += len(client.get(max_urls_per_queue=20, max_queues=_HOSTS, delay_requestable=300))
        return total

    missed = [
        measure("PutURLs", server, PUTS, lambda: len(list(put(iter(items))))),
        measure(
            "PutDiscovered",
            server,
            PUTS,
            lambda: sum(len(ack.statuses) for ack in put_batches(iter(batches))),
        ),
        measure("GetURLs", server, GETS, get),
    ]
    return any(missed)


async def serve_echo() -> None:
    async def echo(requests: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request

    server = grpc.aio.server()
    methods = {"Echo": grpc.stream_stream_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", methods),))
    print(f"Echo: 127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}", flush=True)
    await server.start()
    await server.wait_for_termination(600)


def measure_server(words: list[str], work: Callable[[grpc.Channel, int], bool]) -> bool:
    """Starts a server, which prints its address as the second word, and returns what `work` returns for it."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        with grpc.insecure_channel(process.stdout.readline().split()[1]) as channel:
            missed = work(channel, process.pid)
        process.terminate()
    return missed


def main() -> None:
    urls = 30_000, "of a measurement; PutDiscovered has three times as many"
    echo = False, "for the second process of the benchmark"
    options = command_line(__doc__, urls=urls, serve_echo=echo).parse_args()
    if options.serve_echo:
        return asyncio.run(serve_echo())
    texts = [b"x" * 60] * options.urls
    with tempfile.TemporaryDirectory() as folder:
        modules = generated(Path(folder))
        measure_server(
            _ECHO,
            lambda channel, server: measure(
                "sent back", server, 0, lambda: len(list(channel.stream_stream("/echo/Echo")(iter(texts))))
            ),
        )
        missed = measure_server(
            scrapy("urlfrontier", "--port", "0", DATA_DIR=folder),
            lambda channel, server: measure_frontier(Client(channel, *modules), server, options.urls),
        )
    sys.exit(missed)


if __name__ == "__main__":
    main()
