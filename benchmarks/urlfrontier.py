"""Measures `scrapy urlfrontier` with its embedded engine: one client process, one stream.

    make bench-urlfrontier [ARGS="--urls 20000"]

Each bar is a target; the exit status is 1 if one is missed. `PutURLs` is measured by two clients: grpcio takes more
time for a message than the server, so the one with the bar writes its messages as the clients of Go and Java do, in
frames as large as the server allows, and only counts the acknowledgements. `sent back` is a server with grpcio that
returns each message. Processor times are those of the client and of the server.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded, TrailersReceived

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


def acknowledged(address: str, items: Sequence[Any]) -> int:
    """Sends items by PutURLs in large frames; returns the number of acknowledgements."""
    host, _, port = address.rpartition(":")
    http = H2Connection(H2Configuration(header_encoding="ascii"))
    serialized = [item.SerializeToString() for item in items]
    waiting = b"".join(b"\0" + len(text).to_bytes(4) + text for text in serialized)
    start, total, received = 0, 0, bytearray()
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        http.initiate_connection()
        http.increment_flow_control_window(1 << 24)
        number = http.get_next_available_stream_id()
        http.send_headers(number, [(":method", "POST"), (":scheme", "http"), (":authority", address),
            (":path", "/urlfrontier.URLFrontier/PutURLs"), ("content-type", "application/grpc"),
            ("te", "trailers")])  # fmt: skip
        while True:
            while start < len(waiting) and (room := http.local_flow_control_window(number)) > 0:
                end = min(len(waiting), start + min(room, http.max_outbound_frame_size))
                http.send_data(number, waiting[start:end], end_stream=end == len(waiting))
                start = end
            connection.sendall(http.data_to_send())
            for event in http.receive_data(connection.recv(65_536)):
                if isinstance(event, DataReceived):
                    http.acknowledge_received_data(event.flow_controlled_length, number)
                    received += event.data
                    position = 0
                    while position + 5 <= len(received):
                        end = position + 5 + int.from_bytes(received[position + 1 : position + 5])
                        if end > len(received):
                            break
                        total, position = total + 1, end
                    del received[:position]
                elif isinstance(event, TrailersReceived) and dict(event.headers)["grpc-status"] != "0":
                    raise RuntimeError(f"PutURLs ended with {event.headers}")
                elif isinstance(event, StreamEnded):
                    return total


def measure_frontier(client: Client, address: str, server: int, urls: int) -> bool:
    """Measures the three methods; returns whether a bar is missed."""
    addresses = [f"{n % _HOSTS}.test/path/of/page/{n}" for n in range(3 * urls)]
    items = [client.discovered(f"http://single{address}", id="1") for address in addresses[:urls]]
    others = [client.discovered(f"http://other{address}", id="1") for address in addresses]
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
        measure("PutURLs", server, PUTS, lambda: acknowledged(address, others)),
        measure("  by grpcio", server, 0, lambda: len(list(put(iter(items))))),
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


def measure_server(words: list[str], work: Callable[[str, grpc.Channel, int], bool]) -> bool:
    """Starts a server, which prints its address as the second word, and returns what `work` returns for it."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[1]
        with grpc.insecure_channel(address) as channel:
            missed = work(address, channel, process.pid)
        process.terminate()
    return missed


def main() -> None:
    urls = 30_000, "of a measurement; PutURLs and PutDiscovered have three times as many"
    echo = False, "for the second process of the benchmark"
    options = command_line(__doc__, urls=urls, serve_echo=echo).parse_args()
    if options.serve_echo:
        return asyncio.run(serve_echo())
    texts = [b"x" * 60] * options.urls
    with tempfile.TemporaryDirectory() as folder:
        modules = generated(Path(folder))
        measure_server(
            _ECHO,
            lambda _, channel, server: measure(
                "sent back", server, 0, lambda: len(list(channel.stream_stream("/echo/Echo")(iter(texts))))
            ),
        )
        missed = measure_server(
            scrapy("urlfrontier", "--port", "0", DATA_DIR=folder),
            lambda address, channel, server: measure_frontier(
                Client(channel, *modules), address, server, options.urls
            ),
        )
    sys.exit(missed)


if __name__ == "__main__":
    main()
